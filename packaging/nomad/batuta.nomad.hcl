# Three processes of "batuta run" on three machines: the leader's runs the command. They find each other by Nomad's own
# service catalogue. The secret is a variable of Nomad:
#   nomad var put nomad/jobs/worker cluster_key="$(batuta secret new)"
#   nomad job run packaging/nomad/batuta.nomad.hcl
job "worker" {
  group "worker" {
    count = 3

    constraint {
      operator = "distinct_hosts"
      value    = "true"
    }

    network {
      port "election" {
        to = 7400
      }
    }

    service {
      name     = "worker-batuta"
      port     = "election"
      provider = "nomad"
    }

    task "worker" {
      driver       = "docker"
      user         = "65532:65532"
      kill_timeout = "30s" # the leader stops its command, and hands over

      config {
        image   = "registry.example/worker:latest" # yours, with /usr/bin/batuta in it
        command = "/usr/bin/batuta"
        args    = ["run", "--", "/usr/local/bin/worker"]
        ports   = ["election"]
      }

      env {
        BATUTA_ID          = "${NOMAD_ALLOC_ID}"
        BATUTA_LISTEN      = "0.0.0.0:7400"
        BATUTA_ADVERTISE   = "${NOMAD_ADDR_election}"
        BATUTA_JOIN        = "file:${NOMAD_TASK_DIR}/members"
        BATUTA_EXPECT      = "3"
        BATUTA_REAP_AFTER  = "10m" # an allocation that is replaced does not return
        BATUTA_SECRET_FILE = "${NOMAD_SECRETS_DIR}/cluster.key"
      }

      template {
        destination = "local/members"
        change_mode = "noop" # batuta reads the file again
        data        = <<-EOF
          {{ range nomadService "worker-batuta" }}{{ .Address }}:{{ .Port }}
          {{ end }}
        EOF
      }

      template {
        destination = "secrets/cluster.key"
        change_mode = "noop" # batuta reads it again by itself
        perms       = "0400"
        uid         = 65532
        gid         = 65532
        data        = <<-EOF
          {{ with nomadVar "nomad/jobs/worker" }}{{ .cluster_key }}{{ end }}
        EOF
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
