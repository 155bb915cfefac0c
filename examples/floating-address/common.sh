# What the scripts of this directory share. Each of them sets address, kind and rights, and defines
# identify, which sets machine; where, which sets holder; and take. Then it calls main.

api=${FLOATING_API-}            # another address of the API
metadata=${FLOATING_METADATA-}  # another address of the metadata service
patience=${FLOATING_TIMEOUT:-9} # seconds for a move: less than --hook-timeout, so that the reason is printed
every=${FLOATING_CHECK:-10}     # seconds between two checks of hold
pause=${FLOATING_PAUSE:-1}      # seconds between two tries of a move
credentials=                    # lines for curl, which no list of processes shows
failed=1                        # the exit code; 3: the address is known to be elsewhere
absent=                         # set where 404 is expected: for a machine that may have been deleted
here='this machine' loss='has not moved to' lost='has not moved to'
newline='
'

log() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
	[ "$failed" = 1 ] || loss=$lost
	log "$address $loss $here: $*"
	exit "$failed"
}

# request METHOD URL [BODY]: sets status and answer. It returns 1, with the reason in why, where the same
# request may succeed later, and ends the script where it cannot. It is over within half a second after the
# deadline: date counts whole seconds.
request() {
	left=$((deadline - $(date +%s)))
	[ "$left" -ge 1 ] || { why=${last:-"no time was left for $1 $2"}; return 1; }
	[ "$left" -le 5 ] || left=5
	if ! answer=$(printf '%s\n' "$credentials" | curl -q -sS -K - -X "$1" --connect-timeout 2 -m "$((left - 1)).5" \
		${type:+-H "Content-Type: $type"} ${3+-d "$3"} -w '\n%{http_code}' "$2" 2>&1); then
		why="$1 $2 failed: $(printf %s "$answer" | sed -n 's/.*\(curl: ([0-9]*)\)/\1/p' | head -n 1)" # a part of an answer may have a secret
		return 1
	fi
	status=${answer##*"$newline"}
	answer=${answer%"$newline"*}
	why="$1 $2 was answered by $status, without what is needed" # an answer may have a secret
	case $status in 2??) return ;; esac
	why="$1 $2 was answered by $status: $(printf %s "$answer" | tr -s '\n\t ' ' ' | cut -c 1-300)"
	case $status in
	408 | 409 | 412 | 422 | 423 | 429 | 5??) return 1 ;; # busy, changed meanwhile, too many requests
	401 | 403)
		case $answer in *ateLimitExceeded*) return 1 ;; esac
		die "$why; check $rights"
		;;
	404) [ "$absent" ] || die "$why; check the address, and $rights" ;;
	*) die "$why" ;;
	esac
}

# by_token PATH: identify for an API that takes the token in the file $token. The metadata service has the machine at PATH.
by_token() {
	credentials=
	local_request GET "${metadata:-http://169.254.169.254}$1" || return 1
	machine=$answer type=application/json credentials="header = \"Authorization: Bearer $(cat "$token")\""
}

# local_request METHOD URL: a request to the metadata service of this machine, by no proxy.
local_request() {
	saved=$credentials type=
	credentials="noproxy = \"*\"$newline$credentials"
	request "$@" && code=0 || code=1
	credentials=$saved
	return "$code"
}

# move brings the address here, with another try each second. An address that is here is left alone.
move() {
	deadline=$(($(date +%s) + patience)) asked= last=
	until attempt; do
		last=$why
		again || die "$why; gave up after $patience s"
	done
}

# again waits, and returns 1 where that would take until the deadline.
again() { [ "$(date +%s)" -lt "$((deadline - 1))" ] && sleep "$pause"; }

attempt() {
	identify && here="$kind $machine" && where || return 1
	if [ "$holder" != "$machine" ]; then
		failed=3
		if [ -z "$asked" ]; then
			take && asked=yes && where || return 1
		fi
		if [ "$holder" != "$machine" ]; then
			why="the request was accepted, and the address is still at ${holder:-no machine}"
			return 1
		fi
	fi
	[ "$failed" = 1 ] || log "$address is at $here now"
}

# main ends when the address is here; with hold, when it has been lost and cannot be brought back.
main() {
	(move) || exit 1
	[ "$hold" ] || exit 0
	[ -z "${NOTIFY_SOCKET-}" ] || systemd-notify --ready # batuta run --await-ready
	loss='may no longer be at' lost='is no longer at'
	while sleep "$every"; do
		(move) || [ $? != 3 ] || exit 1 # an API that does not answer moves no address
	done
}

for program in curl jq; do
	command -v "$program" >/dev/null || { log "$program is not installed"; exit 1; }
done
hold=
[ "${1-}" != hold ] || { hold=yes && shift; }
[ $# -gt 0 ] || { log "usage: ${0##*/} [hold] $usage"; exit 2; }
