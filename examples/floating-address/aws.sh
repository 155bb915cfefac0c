#!/bin/sh
# Moves an Elastic IP (its allocation, eipalloc-…) or a secondary private address of the subnet to this
# instance of AWS. The rights are those of the instance's role.
set -u
usage='eipalloc-ID|PRIVATE-ADDRESS'
. "$(dirname -- "$0")/common.sh"

address=$1 kind=instance
rights="the instance's role, which needs ec2:DescribeAddresses and ec2:AssociateAddress, or ec2:AssignPrivateIpAddresses"
metadata=${metadata:-http://169.254.169.254}/latest

identify() {
	credentials='header = "X-aws-ec2-metadata-token-ttl-seconds: 60"'
	local_request PUT "$metadata/api/token" || return 1
	session="header = \"X-aws-ec2-metadata-token: $answer\""
	look instance-id && machine=$answer && look placement/region && region=$answer || return 1
	look iam/security-credentials/ && look "iam/security-credentials/$answer" || return 1
	keys=$(printf %s "$answer" | jq -r '"user = \"\(.AccessKeyId):\(.SecretAccessKey)\"",
		"header = \"X-Amz-Security-Token: \(.Token)\""')
}

# look sets answer to a value of the metadata service.
look() {
	credentials=$session
	local_request GET "$metadata/meta-data/$1"
}

# ec2 ACTION PARAMETERS: a request that curl signs.
ec2() {
	type='' credentials="aws-sigv4 = \"aws:amz:$region:ec2\"$newline$keys"
	request POST "${api:-https://ec2.$region.amazonaws.com}/" "Action=$1&Version=2016-11-15&$2"
}

case $address in
eipalloc-*)
	where() {
		ec2 DescribeAddresses "AllocationId.1=$address" || return 1
		holder=$(printf %s "$answer" | sed -n 's,.*<instanceId>\(.*\)</instanceId>.*,\1,p')
	}
	take() {
		ec2 AssociateAddress "AllocationId=$address&InstanceId=$machine&AllowReassociation=true"
	}
	;;
*)
	where() { # the metadata service shows when the move is complete
		look mac && mac=$answer && look "network/interfaces/macs/$mac/local-ipv4s" || return 1
		holder='another instance'
		if printf '%s\n' "$answer" | grep -qxF -- "$address"; then holder=$machine; fi
	}
	take() {
		look "network/interfaces/macs/$mac/interface-id" || return 1
		ec2 AssignPrivateIpAddresses "NetworkInterfaceId=$answer&PrivateIpAddress.1=$address&AllowReassignment=true"
	}
	;;
esac

main
