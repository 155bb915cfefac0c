#!/bin/sh
# Assigns a floating IP of Hetzner Cloud to this server. The argument is its number: hcloud floating-ip list.
set -u
usage='FLOATING-IP-ID'
. "${0%/*}/common.sh"

address="floating IP $1" kind=server
token=${HCLOUD_TOKEN_FILE:-/etc/batuta/hcloud.token} rights="the token in $token, which needs write access"
[ -r "$token" ] || die "$token cannot be read; write the API token into it, or set HCLOUD_TOKEN_FILE"
resource=${api:-https://api.hetzner.cloud}/v1/floating_ips/$1

identify() {
	credentials=
	local_request GET "${metadata:-http://169.254.169.254}/hetzner/v1/metadata/instance-id" || return 1
	machine=$answer type=application/json credentials="header = \"Authorization: Bearer $(cat "$token")\""
}

where() {
	request GET "$resource" && holder=$(printf %s "$answer" | jq -r '.floating_ip.server // ""')
}

take() {
	request POST "$resource/actions/assign" "{\"server\":$machine}"
}

main
