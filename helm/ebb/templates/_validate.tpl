{{/* Checks that a schema cannot express: values that contradict each other, or that the chart would silently override. */}}
{{- define "ebb.validate" -}}
{{- $config := include "ebb.configTree" . | fromJson -}}
{{- $kafka := include "ebb.usesKafka" . -}}
{{- $multiple := or (gt (int .Values.replicas) 1) .Values.autoscaling.enabled -}}
{{- $errors := list -}}

{{- if and $multiple (not $kafka) -}}
{{- $errors = append $errors "replicas: an embedded service keeps its own journal, and several instances would not share state; set 1, or add config.kafka" -}}
{{- end -}}
{{- if and $multiple $kafka (not .Values.secrets.hashKey.existingSecret) -}}
{{- $errors = append $errors "secrets.hashKey.existingSecret: all instances of a group must hash with the same key; name a secret that contains one: kubectl create secret generic ebb-hash-key --from-literal=hash.key=$(openssl rand -hex 16)" -}}
{{- end -}}

{{- with .Values.secrets.hashKey -}}
{{- if and .previousKey (or (not .existingSecret) (eq .previousKey .key)) -}}
{{- $errors = append $errors "secrets.hashKey.previousKey: must be another entry than key of the secret named in existingSecret; name the entry with the previous key" -}}
{{- end -}}
{{- end -}}

{{- range $path, $remedy := dict
  "data_dir" "the chart mounts the volume"
  "hash_key_file" "name a secret in secrets.hashKey"
  "hash_key_previous_file" "name an entry in secrets.hashKey.previousKey"
  "http.listen" "set ports.http and bindAddress"
  "http.admin_listen" "set ports.admin and bindAddress"
  "http.tokens_file" "name a secret in secrets.apiTokens"
  "http.tls" "name a secret in secrets.httpTls"
  "kafka.instance" "it is set to the name of the pod" -}}
{{- $found := $config -}}
{{- range splitList "." $path -}}
{{- $found = ternary (get (default dict $found) .) nil (kindIs "map" $found) -}}
{{- end -}}
{{- if $found -}}
{{- $errors = append $errors (printf "config.%s: is set by the chart; remove it: %s" $path $remedy) -}}
{{- end -}}
{{- end -}}

{{- range $name, $value := dig "kafka" "properties" dict $config -}}
{{- $secret := regexMatch "password|secret|key|jaas|token|oauthbearer\\.config|\\.pem" $name -}}
{{- $notSecret := regexMatch "(\\.location|\\.url|username)$" $name -}}
{{- if and $secret (not $notSecret) (not (kindIs "map" $value)) -}}
{{- $errors = append $errors (printf "config.kafka.properties.%s: is a secret and must not be in a ConfigMap; reference it in secrets.kafkaSasl, secrets.kafkaTls or secrets.kafkaProperties" $name) -}}
{{- end -}}
{{- end -}}

{{- $authenticated := or .Values.secrets.apiTokens.existingSecret (and .Values.secrets.httpTls.existingSecret .Values.secrets.httpTls.clientCaKey) -}}
{{- $open := or (include "ebb.openInCluster" .) (eq (dig "http" "without_tokens" "" $config) "anywhere") -}}
{{- if and (not $authenticated) (not $open) -}}
{{- $errors = append $errors "secrets.apiTokens.existingSecret: the API would be open to everyone, because there is an ingress, a NodePort or LoadBalancer service, or no NetworkPolicy; name a secret with tokens or secrets.httpTls with a clientCaKey, or set config.http.without_tokens: anywhere" -}}
{{- end -}}

{{- if not $kafka -}}
{{- if or .Values.secrets.kafkaSasl.existingSecret .Values.secrets.kafkaTls.existingSecret .Values.secrets.kafkaProperties -}}
{{- $errors = append $errors "secrets.kafka…: are set without config.kafka; add it, or remove them" -}}
{{- end -}}
{{- end -}}
{{- with .Values.secrets.kafkaTls -}}
{{- if and .existingSecret (ne (empty .certificateKey) (empty .keyKey)) -}}
{{- $errors = append $errors "secrets.kafkaTls: certificateKey and keyKey belong together; set both or neither" -}}
{{- end -}}
{{- if and .existingSecret (not .caKey) (not .certificateKey) -}}
{{- $errors = append $errors "secrets.kafkaTls: no entry of the secret is used; set caKey, or certificateKey and keyKey" -}}
{{- end -}}
{{- end -}}

{{- $stop := include "ebb.stopSeconds" . | int -}}
{{- if le (int .Values.terminationGracePeriodSeconds) $stop -}}
{{- $errors = append $errors (printf "terminationGracePeriodSeconds: stopping may take %d s (the sum of preStopSeconds, config.http.drain and config.checkpoint.deadline); set a larger value" $stop) -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (lt (int .Values.autoscaling.maxReplicas) (int .Values.autoscaling.minReplicas)) -}}
{{- $errors = append $errors "autoscaling.maxReplicas: is less than minReplicas; set at least as many" -}}
{{- end -}}

{{- if $errors -}}
{{- fail (printf "\n  %s" (join "\n  " $errors)) -}}
{{- end -}}
{{- end -}}
