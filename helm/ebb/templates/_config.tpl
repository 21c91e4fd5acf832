{{/* The service's configuration as text. Text is copied byte for byte. */}}
{{- define "ebb.configText" -}}
{{- if not .Values.config -}}
{{- .Files.Get "files/starter.yaml" -}}
{{- else if kindIs "string" .Values.config -}}
{{- .Values.config -}}
{{- else -}}
{{- toYaml .Values.config -}}
{{- end -}}
{{- end -}}

{{/* The parsed configuration, as JSON. */}}
{{- define "ebb.configTree" -}}
{{- $tree := include "ebb.configText" . | fromYaml -}}
{{- if and (hasKey $tree "Error") (not (hasKey $tree "streams")) -}}
{{- fail (printf "config: is not a YAML map: %v" $tree.Error) -}}
{{- end -}}
{{- if not (kindIs "map" $tree.streams) -}}
{{- fail "config.streams: is not a map of streams; define at least one: clicks: {event: {item: [ip, ad]}}" -}}
{{- end -}}
{{- toJson $tree -}}
{{- end -}}

{{/* "true" if the service reads topics, empty if it is embedded. */}}
{{- define "ebb.usesKafka" -}}
{{- if (include "ebb.configTree" . | fromJson).kafka -}}true{{- end -}}
{{- end -}}

{{/* A duration in the service's notation (1h30m, 1500ms) in seconds, rounded up. */}}
{{- define "ebb.seconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 "w" 604800000 -}}
{{- $ms := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ms|s|m|h|d|w)" (toString .) -1 -}}
{{- $ms = addf $ms (mulf (float64 (regexFind "^[0-9.]+" .)) (get $units (regexFind "[a-z]+$" .))) -}}
{{- end -}}
{{- ceil (divf $ms 1000) | int -}}
{{- end -}}

{{/* The longest time to stop: the preStop delay, the drain, and the last checkpoints. */}}
{{- define "ebb.stopSeconds" -}}
{{- $config := include "ebb.configTree" . | fromJson -}}
{{- $drain := include "ebb.seconds" (dig "http" "drain" "10s" $config) | int -}}
{{- $deadline := include "ebb.seconds" (dig "checkpoint" "deadline" "10s" $config) | int -}}
{{- add .Values.preStopSeconds $drain $deadline -}}
{{- end -}}

{{/* Keys that the chart sets through environment variables, which override the file: addresses, paths, files of secrets. */}}
{{- define "ebb.environment" -}}
{{- $config := include "ebb.configTree" . | fromJson -}}
{{- $secrets := "/etc/ebb/secrets" -}}
{{- /* Quoted, because the value is parsed as YAML, where the bracket of an IPv6 address would begin a list. */ -}}
{{- $environment := dict
  "EBB_DATA_DIR" "/var/lib/ebb"
  "EBB_HTTP__LISTEN" (printf "'%s:%v'" .Values.bindAddress .Values.ports.http)
  "EBB_HTTP__ADMIN_LISTEN" (printf "'%s:%v'" .Values.bindAddress .Values.ports.admin) -}}
{{- with .Values.secrets.hashKey -}}
{{- if .existingSecret -}}
{{- $_ := set $environment "EBB_HASH_KEY_FILE" (printf "%s/hash.key" $secrets) -}}
{{- if .previousKey }}{{ $_ := set $environment "EBB_HASH_KEY_PREVIOUS_FILE" (printf "%s/previous.key" $secrets) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if .Values.secrets.apiTokens.existingSecret }}{{ $_ := set $environment "EBB_HTTP__TOKENS_FILE" (printf "%s/tokens" $secrets) }}{{ end -}}
{{- if include "ebb.openInCluster" . }}{{ $_ := set $environment "EBB_HTTP__WITHOUT_TOKENS" "anywhere" }}{{ end -}}
{{- with .Values.secrets.httpTls -}}
{{- if .existingSecret -}}
{{- $_ := set $environment "EBB_HTTP__TLS__CERTIFICATE" (printf "%s/http/tls.crt" $secrets) -}}
{{- $_ := set $environment "EBB_HTTP__TLS__KEY" (printf "%s/http/tls.key" $secrets) -}}
{{- if .clientCaKey }}{{ $_ := set $environment "EBB_HTTP__TLS__CLIENT_CA" (printf "%s/http/ca.crt" $secrets) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- with .Values.secrets.kafkaSasl -}}
{{- if .existingSecret -}}
{{- $_ := set $environment "EBB_KAFKA__PROPERTIES__SASL_USERNAME" (printf "{file: %s/kafka/username}" $secrets) -}}
{{- $_ := set $environment "EBB_KAFKA__PROPERTIES__SASL_PASSWORD" (printf "{file: %s/kafka/password}" $secrets) -}}
{{- $given := dig "kafka" "properties" dict $config -}}
{{- if not (or (get $given "sasl.mechanism") (get $given "sasl.mechanisms")) -}}
{{- $_ := set $environment "EBB_KAFKA__PROPERTIES__SASL_MECHANISM" .mechanism -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.secrets.kafkaTls -}}
{{- if .existingSecret -}}
{{- if .caKey }}{{ $_ := set $environment "EBB_KAFKA__PROPERTIES__SSL_CA_LOCATION" (printf "%s/kafka/ca.crt" $secrets) }}{{ end -}}
{{- if .certificateKey -}}
{{- $_ := set $environment "EBB_KAFKA__PROPERTIES__SSL_CERTIFICATE_LOCATION" (printf "%s/kafka/tls.crt" $secrets) -}}
{{- $_ := set $environment "EBB_KAFKA__PROPERTIES__SSL_KEY_LOCATION" (printf "%s/kafka/tls.key" $secrets) -}}
{{- end -}}
{{- with .keyPasswordKey }}{{ $_ := set $environment "EBB_KAFKA__PROPERTIES__SSL_KEY_PASSWORD" (printf "{file: %s/kafka/tls.password}" $secrets) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- range $property, $from := .Values.secrets.kafkaProperties -}}
{{- $variable := printf "EBB_KAFKA__PROPERTIES__%s" ($property | upper | replace "." "_") -}}
{{- $_ := set $environment $variable (printf "{file: %s/properties/%s}" $secrets $property) -}}
{{- end -}}
{{- $protocol := include "ebb.securityProtocol" . -}}
{{- if $protocol }}{{ $_ := set $environment "EBB_KAFKA__PROPERTIES__SECURITY_PROTOCOL" $protocol }}{{ end -}}
{{- toJson $environment -}}
{{- end -}}

{{/*
"true" if the NetworkPolicy is the only access control: callers need neither a token nor a certificate. The service must be
told, because it does not know the policy and would refuse to listen.
*/}}
{{- define "ebb.openInCluster" -}}
{{- $config := include "ebb.configTree" . | fromJson -}}
{{- $authenticated := or .Values.secrets.apiTokens.existingSecret (and .Values.secrets.httpTls.existingSecret .Values.secrets.httpTls.clientCaKey) -}}
{{- $exposed := or .Values.ingress.enabled (ne .Values.service.type "ClusterIP") -}}
{{- $configured := dig "http" "without_tokens" "" $config -}}
{{- if and .Values.networkPolicy.enabled (not $exposed) (not $authenticated) (not $configured) -}}true{{- end -}}
{{- end -}}

{{/* "true" if `helm test` can call the API: it has a token where one is required, and needs no client certificate. */}}
{{- define "ebb.testEnabled" -}}
{{- $token := or .Values.test.token.existingSecret (not .Values.secrets.apiTokens.existingSecret) -}}
{{- $certificate := and .Values.secrets.httpTls.existingSecret .Values.secrets.httpTls.clientCaKey -}}
{{- if and $token (not $certificate) -}}true{{- end -}}
{{- end -}}

{{/* The security protocol that follows from the configured secrets, unless the configuration sets it. */}}
{{- define "ebb.securityProtocol" -}}
{{- $config := include "ebb.configTree" . | fromJson -}}
{{- $given := dig "kafka" "properties" "security.protocol" "" $config -}}
{{- $sasl := .Values.secrets.kafkaSasl.existingSecret -}}
{{- $tls := .Values.secrets.kafkaTls.existingSecret -}}
{{- if $given -}}
{{- else if and $sasl $tls -}}SASL_SSL
{{- else if $sasl -}}SASL_PLAINTEXT
{{- else if $tls -}}SSL
{{- end -}}
{{- end -}}

{{/*
"true" if the instance is a static member, named after its pod. Not with `group.protocol: consumer`: there the broker lets a
killed static member rejoin only after its session has expired.
*/}}
{{- define "ebb.staticMember" -}}
{{- $config := include "ebb.configTree" . | fromJson -}}
{{- if and $config.kafka (ne (dig "kafka" "properties" "group.protocol" "classic" $config) "consumer") -}}true{{- end -}}
{{- end -}}

{{/* The entries of all referenced secrets, as sources of one projected volume. */}}
{{- define "ebb.secretSources" -}}
{{- $sources := list -}}
{{- with .Values.secrets.hashKey -}}
{{- if .existingSecret -}}
{{- $items := list (dict "key" .key "path" "hash.key") -}}
{{- with .previousKey }}{{ $items = append $items (dict "key" . "path" "previous.key") }}{{ end -}}
{{- $sources = append $sources (dict "name" .existingSecret "items" $items) -}}
{{- end -}}
{{- end -}}
{{- with .Values.secrets.apiTokens -}}
{{- if .existingSecret -}}
{{- $sources = append $sources (dict "name" .existingSecret "items" (list (dict "key" .key "path" "tokens"))) -}}
{{- end -}}
{{- end -}}
{{- with .Values.secrets.httpTls -}}
{{- if .existingSecret -}}
{{- $items := list (dict "key" .certificateKey "path" "http/tls.crt") (dict "key" .keyKey "path" "http/tls.key") -}}
{{- with .clientCaKey }}{{ $items = append $items (dict "key" . "path" "http/ca.crt") }}{{ end -}}
{{- $sources = append $sources (dict "name" .existingSecret "items" $items) -}}
{{- end -}}
{{- end -}}
{{- with .Values.secrets.kafkaSasl -}}
{{- if .existingSecret -}}
{{- $username := dict "key" .usernameKey "path" "kafka/username" -}}
{{- $password := dict "key" .passwordKey "path" "kafka/password" -}}
{{- $sources = append $sources (dict "name" .existingSecret "items" (list $username $password)) -}}
{{- end -}}
{{- end -}}
{{- with .Values.secrets.kafkaTls -}}
{{- if .existingSecret -}}
{{- $items := list -}}
{{- with .caKey }}{{ $items = append $items (dict "key" . "path" "kafka/ca.crt") }}{{ end -}}
{{- if .certificateKey -}}
{{- $items = append $items (dict "key" .certificateKey "path" "kafka/tls.crt") -}}
{{- $items = append $items (dict "key" .keyKey "path" "kafka/tls.key") -}}
{{- end -}}
{{- with .keyPasswordKey }}{{ $items = append $items (dict "key" . "path" "kafka/tls.password") }}{{ end -}}
{{- $sources = append $sources (dict "name" .existingSecret "items" $items) -}}
{{- end -}}
{{- end -}}
{{- range $property, $from := .Values.secrets.kafkaProperties -}}
{{- $item := dict "key" $from.key "path" (printf "properties/%s" $property) -}}
{{- $sources = append $sources (dict "name" $from.existingSecret "items" (list $item)) -}}
{{- end -}}
{{- if $sources -}}
{{- range $sources }}
- secret:
    name: {{ .name }}
    items:
      {{- toYaml .items | nindent 6 }}
{{- end }}
{{- end -}}
{{- end -}}
