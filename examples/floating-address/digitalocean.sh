#!/bin/sh
# Assigns a reserved IP of DigitalOcean to this Droplet. The argument is the address.
set -u
usage='RESERVED-IP'
. "$(dirname -- "$0")/common.sh"

address="reserved IP $1" kind=Droplet
token=${DIGITALOCEAN_TOKEN_FILE:-/etc/batuta/digitalocean.token}
rights="the token in $token, which needs reserved_ip:read and reserved_ip:update"
[ -r "$token" ] || die "$token cannot be read; write the API token into it, or set DIGITALOCEAN_TOKEN_FILE"
resource=${api:-https://api.digitalocean.com}/v2/reserved_ips/$1

identify() { by_token /metadata/v1/id; }

where() {
	request GET "$resource" && holder=$(printf %s "$answer" | jq -r '.reserved_ip.droplet.id // ""')
}

take() {
	request POST "$resource/actions" "{\"type\":\"assign\",\"droplet_id\":$machine}"
}

main
