{{- define "batuta.name" -}}
{{- if contains "batuta" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-batuta" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "batuta.cluster" -}}
{{ .Values.cluster | default (include "batuta.name" .) }}
{{- end }}

{{- define "batuta.secret" -}}
{{ .Values.secret.name | default (include "batuta.name" .) }}
{{- end }}

{{- define "batuta.selector" -}}
app.kubernetes.io/name: batuta
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "batuta.labels" -}}
{{ include "batuta.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* whether the pods call the API server */}}
{{- define "batuta.calls" -}}
{{ if or .Values.podLabel (eq .Values.mode "engine") }}true{{ end }}
{{- end }}

{{- /* the flags of the agent */}}
{{- define "batuta.args" -}}
- agent
- --events=json
{{- if eq .Values.mode "engine" }}
- --kubernetes=$(POD_NAMESPACE)
- --election={{ include "batuta.cluster" . }}
{{- else }}
- --cluster={{ include "batuta.cluster" . }}
{{- end }}
{{- if eq .Values.mode "quorum" }}
- --algorithm=quorum
{{- range $i := until (int .Values.replicas) }}
- --member={{ include "batuta.name" $ }}-{{ $i }}={{ include "batuta.name" $ }}-{{ $i }}.{{ include "batuta.name" $ }}:7400
{{- end }}
{{- else if eq .Values.mode "best-effort" }}
- --algorithm={{ .Values.algorithm }}
- --join={{ include "batuta.name" . }}:7400
- --expect={{ .Values.replicas }}
- --reap-after=10m
{{- end }}
{{- if .Values.podLabel }}
- --pod-label
{{- end }}
{{- with .Values.args }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* the container; a native sidecar if there are others */}}
{{- define "batuta.container" -}}
- name: batuta
  image: {{ printf "%s:%s" (.Values.image.repository | default (eq .Values.mode "engine" | ternary "batuta-engine" "batuta")) (.Values.image.tag | default .Chart.AppVersion) | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  {{- if .Values.containers }}
  restartPolicy: Always
  {{- end }}
  args:
    {{- include "batuta.args" . | nindent 4 }}
  env:
    - name: POD_NAME
      valueFrom: {fieldRef: {fieldPath: metadata.name}}
    - name: BATUTA_ID
      value: $(POD_NAME)
    {{- if eq .Values.mode "engine" }}
    - name: POD_NAMESPACE
      valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
    {{- else }}
    {{- if eq .Values.mode "quorum" }}
    - name: BATUTA_ADVERTISE
      value: $(POD_NAME).{{ include "batuta.name" . }}:7400
    - name: BATUTA_DATA_DIR
      value: /data/batuta # made 0700; some volumes come writable to everyone
    {{- else }}
    - name: POD_IP
      valueFrom: {fieldRef: {fieldPath: status.podIP}}
    - name: BATUTA_ADVERTISE
      value: $(POD_IP):7400
    - name: BATUTA_DATA_DIR # the image has it; here nothing outlives the pod
      value: ""
    {{- end }}
    - name: BATUTA_LISTEN
      value: 0.0.0.0:7400
    - name: BATUTA_HTTP
      value: 127.0.0.1:7500
    - name: BATUTA_HEALTH_HTTP
      value: 0.0.0.0:7501 # probes and Prometheus come from outside the pod; nothing can be changed here
    - name: BATUTA_SECRET_FILE
      value: /secret/cluster.key
    {{- end }}
  {{- if ne .Values.mode "engine" }}
  ports:
    - {name: election, containerPort: 7400}
    - {name: health, containerPort: 7501}
  startupProbe: {httpGet: {path: /healthz, port: health}, periodSeconds: 1, failureThreshold: 60}
  livenessProbe: {httpGet: {path: /healthz, port: health}, periodSeconds: 5}
  readinessProbe: {httpGet: {path: /readyz, port: health}, periodSeconds: 2}
  {{- end }}
  {{- with .Values.lifecycle }}
  lifecycle:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  resources:
    {{- toYaml .Values.resources | nindent 4 }}
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
  {{- if ne .Values.mode "engine" }}
  volumeMounts:
    - {name: batuta-secret, mountPath: /secret, readOnly: true}
    {{- if eq .Values.mode "quorum" }}
    - {name: data, mountPath: /data}
    {{- end }}
  {{- end }}
{{- end }}
