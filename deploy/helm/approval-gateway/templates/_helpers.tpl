{{- /* What all templates share. */ -}}

{{- define "gateway.selector" -}}
app.kubernetes.io/name: approval-gateway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gateway.labels" -}}
{{ include "gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "gateway.claim" -}}
{{ .Values.archive.existingClaim | default (printf "%s-archive" .Release.Name) }}
{{- end }}

{{- /* A volume that one node holds cannot move while the old pod runs. */ -}}
{{- define "gateway.strategy" -}}
{{- if eq .Values.archive.accessMode "ReadWriteOnce" -}}
{{- if or (gt (int .Values.replicas) 1) .Values.chats -}}
{{- fail "archive.accessMode ReadWriteOnce is for one gateway without chats: use ReadWriteMany" -}}
{{- end -}}
type: Recreate
{{- else -}}
type: RollingUpdate
rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
{{- end -}}
{{- end }}

{{- /* What each pod is allowed: no rights, and no token of the cluster. */ -}}
{{- define "gateway.pod" -}}
automountServiceAccountToken: false
# Otherwise a Service named "gateway" sets GATEWAY_PORT.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
# Five seconds until no new call arrives, and the time in which a gateway ends.
terminationGracePeriodSeconds: 45
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "gateway.container" -}}
image: {{ .Values.image | quote }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- if not .Values.restoring }}
lifecycle:
  preStop:
    exec: {command: [sleep, "5"]}
startupProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}
resources: {{ toYaml .Values.resources | nindent 2 }}
{{- end }}

{{- /* Settings of each pod. The proxy or the ingress provides TLS. */ -}}
{{- define "settings.env" -}}
- {name: GATEWAY_ENV, value: production}
- {name: GATEWAY_HOST, value: 0.0.0.0}
- {name: GATEWAY_PORT, value: "8080"}
- {name: GATEWAY_TRUSTED_PROXY, value: "true"}
- {name: GATEWAY_PUBLIC_URL, value: {{ .Values.publicUrl | quote }}}
- {name: GATEWAY_ARCHIVE, value: /archive}
- {name: REDIS_URL_FILE, value: /secrets/redis_url}
- {name: GATEWAY_SIGNING_KEY_FILE, value: /secrets/signing_key}
{{- range .Values.secret.extra }}
- {name: GATEWAY_{{ upper . }}_FILE, value: /secrets/{{ . }}}
{{- end }}
{{- $made := "_(KEY|SECRET|TOKEN|CERT|FILE)$|^GATEWAY_(ADAPTERS|ARCHIVE|DATA_DIR|EMAIL_URL|ENV|HOST|PORT|PUBLIC_URL|TRUSTED_PROXY)$" }}
{{- range $name, $value := .Values.settings }}
{{- if or (regexMatch $made $name) (not (regexMatch "^GATEWAY_[A-Z_]+$" $name)) }}
{{- fail (printf "settings: %s is a secret for your Secret, or the chart makes it, or it is unknown" $name) }}
{{- end }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{- define "gateway.mounts" -}}
- {name: secrets, mountPath: /secrets, readOnly: true}
- {name: archive, mountPath: /archive}
- {name: tmp, mountPath: /tmp}
{{- end }}

{{- /* Volumes of a pod, with no other keys of the Secret than it needs. */ -}}
{{- define "gateway.volumes" -}}
- name: secrets
  secret:
    secretName: {{ .root.Values.secret.name | required "secret.name: name the Secret with redis_url and signing_key" }}
    defaultMode: 0400
    items:
    {{- range concat (list "redis_url" "signing_key") .root.Values.secret.extra .tokens }}
      - {key: {{ . }}, path: {{ . }}}
    {{- end }}
- name: archive
  persistentVolumeClaim: {claimName: {{ include "gateway.claim" .root }}}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
{{- end }}
