{{/* What no schema can say: values that contradict each other, or that the chart would overrule in silence. */}}
{{- define "ebb.refusals" -}}
{{- $config := include "ebb.configTree" . | fromJson -}}
{{- $kafka := include "ebb.onKafka" . -}}
{{- $several := or (gt (int .Values.replicas) 1) .Values.autoscaling.enabled -}}
{{- $refusals := list -}}

{{- if and $several (not $kafka) -}}
{{- $refusals = append $refusals "replicas: an embedded service keeps its own log, and several would each remember something else; write 1, or add config.kafka" -}}
{{- end -}}
{{- if and $several $kafka (not .Values.secrets.hashKey.existingSecret) -}}
{{- $refusals = append $refusals "secrets.hashKey.existingSecret: all instances of a group hash with the same key; name a secret that holds one: kubectl create secret generic ebb-hash-key --from-literal=hash.key=$(openssl rand -hex 16)" -}}
{{- end -}}

{{- with .Values.secrets.hashKey -}}
{{- if and .previousKey (or (not .existingSecret) (eq .previousKey .key)) -}}
{{- $refusals = append $refusals "secrets.hashKey.previousKey: is no other entry of a secret; name the secret in existingSecret, and in it the key before" -}}
{{- end -}}
{{- end -}}

{{- range $path, $instead := dict
  "data_dir" "the volume is mounted where the chart says"
  "hash_key_file" "name a secret in secrets.hashKey"
  "hash_key_previous_file" "name an entry in secrets.hashKey.previousKey"
  "http.listen" "write ports.http and bindAddress"
  "http.admin_listen" "write ports.admin and bindAddress"
  "http.tokens_file" "name a secret in secrets.apiTokens"
  "http.tls" "name a secret in secrets.httpTls"
  "kafka.instance" "it is the pod's name" -}}
{{- $found := $config -}}
{{- range splitList "." $path -}}
{{- $found = ternary (get (default dict $found) .) nil (kindIs "map" $found) -}}
{{- end -}}
{{- if $found -}}
{{- $refusals = append $refusals (printf "config.%s: belongs to the chart; remove it: %s" $path $instead) -}}
{{- end -}}
{{- end -}}

{{- range $name, $value := dig "kafka" "properties" dict $config -}}
{{- $secret := regexMatch "password|secret|key|jaas|token|oauthbearer\\.config|\\.pem" $name -}}
{{- $place := regexMatch "(\\.location|\\.url|username)$" $name -}}
{{- if and $secret (not $place) (not (kindIs "map" $value)) -}}
{{- $refusals = append $refusals (printf "config.kafka.properties.%s: is a secret, and a ConfigMap is none; name it in secrets.kafkaSasl, secrets.kafkaTls or secrets.kafkaProperties" $name) -}}
{{- end -}}
{{- end -}}

{{- $known := or .Values.secrets.apiTokens.existingSecret (and .Values.secrets.httpTls.existingSecret .Values.secrets.httpTls.clientCaKey) -}}
{{- $open := or (include "ebb.openInside" .) (eq (dig "http" "without_tokens" "" $config) "anywhere") -}}
{{- if and (not $known) (not $open) -}}
{{- $refusals = append $refusals "secrets.apiTokens.existingSecret: nothing keeps strangers out where there is an ingress, a port of nodes or a load balancer, or no network policy; name a secret with tokens or secrets.httpTls with a clientCaKey, or write config.http.without_tokens: anywhere" -}}
{{- end -}}

{{- if not $kafka -}}
{{- if or .Values.secrets.kafkaSasl.existingSecret .Values.secrets.kafkaTls.existingSecret .Values.secrets.kafkaProperties -}}
{{- $refusals = append $refusals "secrets.kafka…: there is no config.kafka that they could be for; add it, or remove them" -}}
{{- end -}}
{{- end -}}
{{- with .Values.secrets.kafkaTls -}}
{{- if and .existingSecret (ne (empty .certificateKey) (empty .keyKey)) -}}
{{- $refusals = append $refusals "secrets.kafkaTls: a certificate needs its key and a key its certificate; write both certificateKey and keyKey, or neither" -}}
{{- end -}}
{{- if and .existingSecret (not .caKey) (not .certificateKey) -}}
{{- $refusals = append $refusals "secrets.kafkaTls: nothing of the secret is used; write caKey, or certificateKey and keyKey" -}}
{{- end -}}
{{- end -}}

{{- $stop := include "ebb.stopSeconds" . | int -}}
{{- if le (int .Values.terminationGracePeriodSeconds) $stop -}}
{{- $refusals = append $refusals (printf "terminationGracePeriodSeconds: stopping may take %d s (preStopSeconds, config.http.drain and config.checkpoint.deadline together); write more than that" $stop) -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (lt (int .Values.autoscaling.maxReplicas) (int .Values.autoscaling.minReplicas)) -}}
{{- $refusals = append $refusals "autoscaling.maxReplicas: is less than minReplicas; write at least as many" -}}
{{- end -}}

{{- if $refusals -}}
{{- fail (printf "\n  %s" (join "\n  " $refusals)) -}}
{{- end -}}
{{- end -}}
