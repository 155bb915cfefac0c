// Package redis holds elections on a Redis server, 5 or later, or a server with its protocol such as Valkey.
//
// An election is a hash. A claim, a renewal and a release are each a script, which the server runs in a single step. No
// expiry is used: the candidates count the lease, see package engines.
//
// The promise holds as long as the server forgets nothing that it has confirmed, and Redis promises less than that:
//
//   - Replication is asynchronous. A replica that is promoted, by hand, by Sentinel or in a Redis Cluster, may lack
//     the last writes: then there can be two leaders. Elections need a server that no replica ever replaces.
//   - With appendfsync everysec, the default, a loss of power takes up to two seconds of writes. Set appendfsync always.
//   - Without appendonly, or if its files are lost, a restart takes writes. No leadership begins then before the server has
//     run for a lease.
//   - A server is refused if its maxmemory-policy may evict the hash.
package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/record"
)

// Prefix is what the keys of batuta-engine begin with: Prefix + the election's name.
const Prefix = "batuta:"

// Engine is an [engines.Engine] on Redis.
type Engine struct {
	client     client.UniversalClient
	key        string
	lease      time.Duration
	subscribed chan *client.PubSub // nil in it: there is none
}

// New returns the engine of the election of that key, for a single candidate. Lease is the longest lease of its
// candidates. On a server that was started less than a lease ago, it is an error if there is no record, and without
// appendonly if there is no leader; not if lease is 0, which is for reading only.
//
// The client remains the caller's, and must be closed after the [engines.Election] only. It needs MaxRetries -1: a claim
// that the client repeats finds its own record.
func New(c client.UniversalClient, key string, lease time.Duration) *Engine {
	e := &Engine{client: c, key: key, lease: lease, subscribed: make(chan *client.PubSub, 1)}
	e.subscribed <- nil
	return e
}

// Each script has the key of the election, which is also the channel that a change of leader is published on.
var (
	lookScript = client.NewScript(`
		local r = redis.call('HMGET', KEYS[1], 'id', 'address', 'process', 'lasts_ms', 'epoch', 'beat', 'resigned')
		for i = 1, 7 do r[i] = r[i] or '' end
		local about = ''
		for _, s in ipairs({'server', 'replication', 'persistence', 'memory'}) do about = about .. redis.call('INFO', s) end
		r[8] = about
		return r`)

	// The clock gives epochs that rise also after the server has lost the hash; what the hash has, if the clock is set back.
	claimScript = client.NewScript(`
		local r = redis.call('HMGET', KEYS[1], 'epoch', 'beat')
		local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
		if (r[1] or '') .. '.' .. (r[2] or '') .. '.' .. run ~= ARGV[1] then return false end
		local t = redis.call('TIME')
		local epoch = string.format('%.0f', math.max((tonumber(r[1]) or 0) + 1, t[1] * 1000000 + t[2]))
		redis.call('HSET', KEYS[1], 'id', ARGV[2], 'address', ARGV[3], 'process', ARGV[4], 'lasts_ms', ARGV[5], 'epoch', epoch, 'beat', '0', 'resigned', '')
		redis.call('PUBLISH', KEYS[1], 'claimed')
		return {epoch, '0', run}`)

	renewScript = client.NewScript(`
		local r = redis.call('HMGET', KEYS[1], 'epoch', 'process')
		if r[1] ~= ARGV[1] or r[2] ~= ARGV[2] then return false end
		local beat = redis.call('HINCRBY', KEYS[1], 'beat', 1)
		return {r[1], tostring(beat), string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')}`)

	releaseScript = client.NewScript(`
		local r = redis.call('HMGET', KEYS[1], 'epoch', 'process')
		if r[1] ~= ARGV[1] or r[2] ~= ARGV[2] then return false end
		redis.call('HSET', KEYS[1], 'id', '', 'address', '', 'process', '', 'resigned', '1')
		redis.call('HINCRBY', KEYS[1], 'beat', 1)
		redis.call('PUBLISH', KEYS[1], 'released')
		return {r[1], '', ''}`)
)

// Name implements [engines.Engine].
func (e *Engine) Name() string { return "redis" }

// Look implements [engines.Engine].
func (e *Engine) Look(ctx context.Context) (engines.Record, error) {
	fields, err := lookScript.Run(ctx, e.client, []string{e.key}).StringSlice()
	if err != nil {
		return engines.Record{}, e.explain(err)
	}
	if len(fields) != 8 {
		return engines.Record{}, fmt.Errorf("key %s: the answer has %d fields instead of 8", e.key, len(fields))
	}
	about := server(fields[7])
	if err := about.fit(); err != nil {
		return engines.Record{}, err
	}
	r := engines.Record{ID: batuta.ID(fields[0]), Address: fields[1], Process: fields[2], Resigned: fields[6] != "", Version: version(fields[4], fields[5], about["run_id"])}
	found := strings.Join(fields[:7], "") != ""
	if r.ID == "" {
		if err := about.remembers(e.lease, found); err != nil {
			return engines.Record{}, err
		}
	}
	if !found {
		return r, nil // there is no hash
	}
	lasts, err := strconv.ParseInt(fields[3], 10, 64)
	if err == nil {
		r.Epoch, err = strconv.ParseUint(fields[4], 10, 64)
	}
	if err != nil {
		return engines.Record{}, record.Damaged("key "+e.key, "%v", err)
	}
	return record.Check("key "+e.key, r, lasts)
}

// version has the server's run: a server that was started again may have gone back to an earlier record.
func version(epoch, beat, run string) string { return epoch + "." + beat + "." + run }

// about is what a server reports of itself.
type about map[string]string

func server(info string) about {
	a := about{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			a[name] = value
		}
	}
	return a
}

// fit returns the reason why the server cannot hold elections, or nil.
func (a about) fit() error {
	if a["role"] == "slave" {
		return errors.New("this server is a replica: elections need the one that takes writes")
	}
	if policy := a["maxmemory_policy"]; a["maxmemory"] != "0" && strings.HasPrefix(policy, "allkeys") {
		return fmt.Errorf("maxmemory-policy %s may evict the leader: set noeviction, or a volatile policy", policy)
	}
	return nil
}

// remembers returns the reason why the server may have forgotten a leader, or nil. A log may have been lost with the rest,
// so it counts only if the hash was found.
func (a about) remembers(lease time.Duration, found bool) error {
	seconds, err := strconv.Atoi(a["uptime_in_seconds"])
	if up := time.Duration(seconds) * time.Second; a["aof_enabled"] == "1" && found || lease == 0 || err == nil && up >= lease+time.Second { // it has whole seconds
		return nil
	}
	return fmt.Errorf("the server was started %s s ago, has no log or no record, and may have forgotten a leader: none begins before %v", a["uptime_in_seconds"], lease)
}

// Changed implements [engines.Engine].
func (e *Engine) Changed(ctx context.Context, _ engines.Record) error {
	var s *client.PubSub
	select {
	case s = <-e.subscribed:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { e.subscribed <- s }()
	if s == nil {
		s = e.client.Subscribe(ctx, e.key)
		if _, err := s.Receive(ctx); err != nil {
			s.Close()
			s = nil
			return e.explain(err)
		}
		return nil // what was published before is missed
	}
	select {
	case _, open := <-s.Channel():
		if !open {
			s = nil
			return errors.New("the subscription has ended")
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Claim implements [engines.Engine].
func (e *Engine) Claim(ctx context.Context, seen, mine engines.Record) (engines.Record, error) {
	return e.swap(ctx, claimScript, mine, seen.Version, string(mine.ID), mine.Address, mine.Process, max(mine.Lasts.Milliseconds(), 1))
}

// Renew implements [engines.Engine].
func (e *Engine) Renew(ctx context.Context, mine engines.Record) (engines.Record, error) {
	return e.swap(ctx, renewScript, mine, mine.Epoch, mine.Process)
}

// Release implements [engines.Engine].
func (e *Engine) Release(ctx context.Context, mine engines.Record) error {
	_, err := e.swap(ctx, releaseScript, mine, mine.Epoch, mine.Process)
	return err
}

// swap runs a script that returns epoch, heartbeat and run if it has replaced the record.
func (e *Engine) swap(ctx context.Context, script *client.Script, mine engines.Record, values ...any) (engines.Record, error) {
	fields, err := script.Run(ctx, e.client, []string{e.key}, values...).StringSlice()
	switch {
	case errors.Is(err, client.Nil):
		return engines.Record{}, engines.ErrTaken
	case err != nil:
		return engines.Record{}, e.explain(err)
	case len(fields) != 3:
		return engines.Record{}, fmt.Errorf("key %s: the answer has %d fields instead of 3", e.key, len(fields))
	}
	if mine.Epoch, err = strconv.ParseUint(fields[0], 10, 64); err != nil {
		return engines.Record{}, err
	}
	mine.Version = version(fields[0], fields[1], fields[2])
	return mine, nil
}

// Check gives an error that wraps [engines.ErrDenied] when Redis refuses a look or a release, and the client's error when
// Redis does not answer. It changes nothing. A command that only a claim uses is refused at the first claim.
func (e *Engine) Check(ctx context.Context) error {
	never := engines.Record{Process: "none"}
	if err := e.Release(ctx, never); err != nil && !errors.Is(err, engines.ErrTaken) {
		return err
	}
	_, err := e.Look(ctx)
	return err
}

// explain finds what Redis refuses.
func (e *Engine) explain(err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "WRONGTYPE "):
		return record.Damaged("key "+e.key, "it is no hash")
	case strings.Contains(text, "NOAUTH "), strings.Contains(text, "without any password configured"):
		return engines.Denied("Redis requires a password, or has none configured: %s", text)
	case strings.Contains(text, "WRONGPASS "), strings.Contains(text, "invalid password"):
		return engines.Denied("Redis refuses the user or the password")
	case strings.Contains(text, "NOPERM "), strings.Contains(text, "can't run this command or subcommand"), strings.Contains(text, "No permissions"):
		return engines.Denied("Redis denies the user key %s: allow it ~%s &%s +eval +evalsha +subscribe +publish +hmget +hset +hincrby +info +time", e.key, e.key, e.key)
	}
	return err
}

// Close implements [engines.Engine].
func (e *Engine) Close() error {
	s := <-e.subscribed
	e.subscribed <- nil
	if s == nil {
		return nil
	}
	return s.Close()
}
