// The tests of the packaging stand apart: a service that elects a leader need not have a parser of YAML.
module github.com/batuta-dev/batuta/packaging

go 1.26.0

require go.yaml.in/yaml/v3 v3.0.6
