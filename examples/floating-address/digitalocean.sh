#!/bin/sh
# Assigns a reserved IP of DigitalOcean to this Droplet. The argument is the address.
set -u
usage='RESERVED-IP'
. "${0%/*}/common.sh"

address="reserved IP $1" kind=Droplet
token=${DIGITALOCEAN_TOKEN_FILE:-/etc/batuta/digitalocean.token}
rights="the token in $token, which needs reserved_ip:read and reserved_ip:update"
[ -r "$token" ] || die "$token cannot be read; write the API token into it, or set DIGITALOCEAN_TOKEN_FILE"
resource=${api:-https://api.digitalocean.com}/v2/reserved_ips/$1

identify() {
	credentials=
	local_request GET "${metadata:-http://169.254.169.254}/metadata/v1/id" || return 1
	machine=$answer type=application/json credentials="header = \"Authorization: Bearer $(cat "$token")\""
}

where() {
	request GET "$resource" && holder=$(printf %s "$answer" | jq -r '.reserved_ip.droplet.id // ""')
}

take() {
	request POST "$resource/actions" "{\"type\":\"assign\",\"droplet_id\":$machine}"
}

main
