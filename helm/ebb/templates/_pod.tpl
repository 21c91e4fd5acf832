{{/* The pod of the StatefulSet, within Pod Security `restricted`. */}}
{{- define "ebb.pod" -}}
serviceAccountName: {{ include "ebb.serviceAccountName" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  {{- if .Values.topologySpreadConstraints }}
  {{- toYaml .Values.topologySpreadConstraints | nindent 2 }}
  {{- else }}
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "ebb.selector" $ | nindent 8 }}
  {{- end }}
  {{- end }}
containers:
  - name: ebb
    image: {{ include "ebb.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command: [ebb, serve, /etc/ebb/config/ebb.yaml]
    env:
      {{- if include "ebb.staticMember" . }}
      # Static membership and transactional ids follow the pod's name: a quick restart does not move partitions.
      - name: EBB_KAFKA__INSTANCE
        valueFrom:
          fieldRef:
            fieldPath: metadata.name
      {{- end }}
      {{- range $name, $value := include "ebb.environment" . | fromJson }}
      - name: {{ $name }}
        value: {{ $value | quote }}
      {{- end }}
      {{- with .Values.extraEnv }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    ports:
      - name: http
        containerPort: {{ .Values.ports.http }}
        protocol: TCP
      - name: admin
        containerPort: {{ .Values.ports.admin }}
        protocol: TCP
    {{- with .Values.probes }}
    # Succeeds once every shard is restored; until then the other probes are not run.
    startupProbe:
      httpGet:
        path: /readyz
        port: admin
      periodSeconds: {{ .startup.periodSeconds }}
      timeoutSeconds: {{ .startup.timeoutSeconds }}
      failureThreshold: {{ ceil (divf .startup.restoreSeconds .startup.periodSeconds) }}
    livenessProbe:
      httpGet:
        path: /livez
        port: admin
      {{- toYaml .liveness | nindent 6 }}
    readinessProbe:
      httpGet:
        path: /readyz
        port: admin
      {{- toYaml .readiness | nindent 6 }}
    {{- end }}
    {{- if and .Values.preStopSeconds (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) }}
    # The service stops listening on SIGTERM: load balancers must have removed the pod before.
    lifecycle:
      preStop:
        sleep:
          seconds: {{ .Values.preStopSeconds }}
    {{- end }}
    resources:
      {{- toYaml .Values.resources | nindent 6 }}
    securityContext:
      {{- toYaml .Values.securityContext | nindent 6 }}
    volumeMounts:
      - name: config
        mountPath: /etc/ebb/config
        readOnly: true
      {{- if include "ebb.secretSources" . }}
      - name: secrets
        mountPath: /etc/ebb/secrets
        readOnly: true
      {{- end }}
      - name: data
        mountPath: /var/lib/ebb
      - name: tmp
        mountPath: /tmp
      {{- with .Values.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  - name: config
    configMap:
      name: {{ include "ebb.fullname" . }}
  {{- with include "ebb.secretSources" . }}
  - name: secrets
    projected:
      # Readable by the pod's user and group only.
      defaultMode: 0440
      sources:
        {{- . | nindent 8 }}
  {{- end }}
  {{- if not .Values.persistence.enabled }}
  - name: data
    emptyDir:
      sizeLimit: {{ .Values.persistence.size }}
  {{- end }}
  - name: tmp
    emptyDir:
      sizeLimit: {{ .Values.tmpSize }}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
