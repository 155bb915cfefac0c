#!/bin/sh
# Moves an alias IP address of Google Cloud to this instance from the one that has it. The arguments are
# the range, such as 10.128.0.100/32, and every instance of the cluster as ZONE/NAME. The rights are those
# of the instance's service account.
set -u
usage='ALIAS-RANGE ZONE/NAME…'
: "${FLOATING_TIMEOUT:=55}" # two operations take longer than one request: set --hook-timeout 60s
. "$(dirname -- "$0")/common.sh"

address="alias IP $1" kind=instance range=$1
shift
instances=$*
rights="the service account, which needs compute.instances.get, compute.instances.updateNetworkInterface and compute.zoneOperations.get"
metadata=${metadata:-http://metadata.google.internal}/computeMetadata/v1

identify() {
	absent='' credentials='header = "Metadata-Flavor: Google"'
	local_request GET "$metadata/project/project-id" || return 1
	zones=${api:-https://compute.googleapis.com}/compute/v1/projects/$answer/zones
	local_request GET "$metadata/instance/zone" && zone=${answer##*/} || return 1
	local_request GET "$metadata/instance/name" && machine=$zone/$answer || return 1
	local_request GET "$metadata/instance/service-accounts/default/token" || return 1
	credentials="header = \"Authorization: Bearer $(printf %s "$answer" | jq -r .access_token)\""
	type=application/json
	case " $instances " in *" $machine "*) ;; *) die "its arguments do not name $machine" ;; esac
}

# look sets answer to the description of an instance.
look() {
	request GET "$zones/${1%%/*}/instances/${1##*/}"
}

where() {
	holder=
	for instance in $instances; do
		absent=yes
		look "$instance" || return 1
		absent=''
		if printf %s "$answer" | jq -e --arg range "$range" \
			'[.networkInterfaces[0].aliasIpRanges[]?.ipCidrRange] | index($range)' >/dev/null; then
			holder=$instance
		fi
	done
}

# shellcheck disable=SC2016 # these are variables of jq
# take removes the range from the instance that has it: Google gives no address to two instances. The
# fingerprint makes Google refuse a change of an interface that was changed meanwhile.
take() {
	[ -z "$holder" ] || change "$holder" 'map(select(.ipCidrRange != $range))' || return 1
	change "$machine" '. + [{ipCidrRange: $range} + if $name == "" then {} else {subnetworkRangeName: $name} end]'
}

# change INSTANCE FILTER: sets the alias ranges of an instance to what jq makes of them, and waits until
# that is done.
change() {
	look "$1" || return 1
	interface=$(printf %s "$answer" | jq -r '.networkInterfaces[0].name')
	body=$(printf %s "$answer" | jq -c --arg range "$range" --arg name "${GOOGLE_RANGE_NAME-}" \
		"{aliasIpRanges: ((.networkInterfaces[0].aliasIpRanges // []) | $2), fingerprint: .networkInterfaces[0].fingerprint}")
	request PATCH "$zones/${1%%/*}/instances/${1##*/}/updateNetworkInterface?networkInterface=$interface" "$body" || return 1
	operation=$(printf %s "$answer" | jq -r .name)
	while [ "$(printf %s "$answer" | jq -r .status)" != DONE ]; do
		again || { why="the operation $operation is not done"; return 1; }
		request GET "$zones/${1%%/*}/operations/$operation" || return 1
	done
	problem=$(printf %s "$answer" | jq -r '.error.errors[0].message // ""')
	[ -z "$problem" ] || { why="the operation $operation failed: $problem"; return 1; }
}

main
