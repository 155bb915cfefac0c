#!/bin/sh
# Assigns a floating IP of Hetzner Cloud to this server. The argument is its number: hcloud floating-ip list.
set -u
usage='FLOATING-IP-ID'
. "$(dirname -- "$0")/common.sh"

address="floating IP $1" kind=server
token=${HCLOUD_TOKEN_FILE:-/etc/batuta/hcloud.token} rights="the token in $token, which needs write access"
[ -r "$token" ] || die "$token cannot be read; write the API token into it, or set HCLOUD_TOKEN_FILE"
resource=${api:-https://api.hetzner.cloud}/v1/floating_ips/$1

identify() { by_token /hetzner/v1/metadata/instance-id; }

where() {
	request GET "$resource" && holder=$(printf %s "$answer" | jq -r '.floating_ip.server // ""')
}

take() {
	request POST "$resource/actions/assign" "{\"server\":$machine}"
}

main
