{{/* Labels of every object, beside those of its own. */}}
{{- define "lanekeeper.labels" -}}
app.kubernetes.io/part-of: lanekeeper
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "lanekeeper.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{/* The image of a container. */}}
{{- define "lanekeeper.imageOf" -}}
image: {{ include "lanekeeper.image" . }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{/* What every pod says of itself. */}}
{{- define "lanekeeper.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "lanekeeper.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: ["ALL"]
{{- end }}

{{/* Probes on the listener named by the argument; failures that make a pod unready. */}}
{{- define "lanekeeper.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: {{ .port }}}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: {{ .port }}}
  periodSeconds: 10
  timeoutSeconds: 3
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: {{ .port }}}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: {{ .failures }}
lifecycle:
  preStop:
    sleep: {seconds: 5}
{{- end }}

{{/* More variables: NAME: value. */}}
{{- define "lanekeeper.environment" -}}
{{- range $name, $value := . }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{/* Replicas of one kind apart from each other. */}}
{{- define "lanekeeper.apart" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {app.kubernetes.io/name: {{ . }}}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {app.kubernetes.io/name: {{ . }}}
{{- end }}

{{/* A pod template's annotations: the given ones, and what restarts it when its settings change. */}}
{{- define "lanekeeper.annotations" -}}
{{- range $name, $value := .given }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- with .settings }}
lanekeeper/settings: {{ . | sha256sum }}
{{- end }}
{{- end }}

{{- define "lanekeeper.gateways" -}}
{{- $own := printf "%s/lanekeeper-agent=%s" .Release.Namespace .Values.agent.gateway -}}
{{- prepend .Values.enrolment.gateways $own | join "," -}}
{{- end }}

{{/* What a control plane is given besides its storage. */}}
{{- define "lanekeeper.enrolment" -}}
- {name: LANEKEEPER_CA_CERT, value: /authority/ca.crt}
- {name: LANEKEEPER_CA_KEY, value: /authority/ca.key}
- name: LANEKEEPER_TLS_NAMES
  value: lanekeeper-control-plane,lanekeeper-control-plane.{{ .Release.Namespace }}.svc
- name: LANEKEEPER_KUBERNETES_JWKS
  value: https://kubernetes.default.svc/openid/v1/jwks
- {name: LANEKEEPER_KUBERNETES_CA, value: /cluster/ca.crt}
- {name: LANEKEEPER_KUBERNETES_TOKEN_FILE, value: /cluster/token}
{{- end }}

{{- define "lanekeeper.enrolmentVolumes" -}}
- name: authority
  secret: {secretName: {{ .Values.enrolment.authoritySecret }}, defaultMode: 288}
- name: cluster
  projected:
    defaultMode: 288
    sources:
      - serviceAccountToken: {expirationSeconds: 3600, path: token}
      - configMap:
          name: kube-root-ca.crt
          items: [{key: ca.crt, path: ca.crt}]
{{- end }}

{{- define "lanekeeper.stores" -}}
- name: LANEKEEPER_DATABASE_URL
  valueFrom:
    secretKeyRef: {name: {{ .Values.stores.secretName }}, key: database-url}
- name: LANEKEEPER_REDIS_URL
  valueFrom:
    secretKeyRef: {name: {{ .Values.stores.secretName }}, key: redis-url}
{{- end }}

{{/* Who runs the control plane. */}}
{{- define "lanekeeper.plane" -}}
{{- if eq .Values.mode "single" }}lanekeeper-server{{ else }}lanekeeper-control-plane{{ end }}
{{- end }}
{{- define "lanekeeper.api" -}}
{{- if eq .Values.mode "single" }}lanekeeper-server{{ else }}lanekeeper-dashboard-api{{ end }}
{{- end }}
