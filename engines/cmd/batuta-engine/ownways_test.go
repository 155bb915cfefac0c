package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
)

// standByOwnWay is a candidate as the documentation of Redis and of NATS has it: a key that ends after ttl is claimed and
// renewed, and the process ends when it has lost the key.
func standByOwnWay(way, addr, ttl string, command []string) {
	life, err := time.ParseDuration(ttl)
	if err != nil {
		log.Fatal(err)
	}
	claim, renew := setNX(addr, life)
	if way == "nats-key" {
		claim, renew = natsKey(addr, life)
	}
	ctx := context.Background()
	for claim(ctx) != nil {
		time.Sleep(life / 20)
	}
	go func() {
		if err := exec.Command(command[0], command[1:]...).Run(); err != nil {
			log.Print(err)
		}
		os.Exit(0)
	}()
	for {
		time.Sleep(life / 3)
		within, cancel := context.WithTimeout(ctx, life/3)
		err := renew(within)
		cancel()
		if err != nil {
			log.Fatal(err)
		}
	}
}

var errHeld = errors.New("another process holds the key")

// setNX is what Redis documents for SET: NX and PX, and a script that renews only the holder's key.
func setNX(addr string, life time.Duration) (claim, renew func(context.Context) error) {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, DisableIdentity: true})
	id := fmt.Sprint(os.Getpid())
	script := redis.NewScript(`return redis.call("get", KEYS[1]) == ARGV[1] and redis.call("pexpire", KEYS[1], ARGV[2])`)
	claim = func(ctx context.Context) error {
		ok, err := c.SetNX(ctx, "work", id, life).Result()
		if err == nil && !ok {
			err = errHeld
		}
		return err
	}
	return claim, func(ctx context.Context) error {
		return script.Run(ctx, c, []string{"work"}, id, life.Milliseconds()).Err() // nil, and so an error, if another has it
	}
}

// natsKey creates a key in a bucket with a TTL, and updates it by its revision.
func natsKey(addr string, life time.Duration) (claim, renew func(context.Context) error) {
	conn, err := nats.Connect("nats://"+addr, nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		log.Fatal(err)
	}
	kv, err := js.CreateOrUpdateKeyValue(context.Background(), jetstream.KeyValueConfig{Bucket: "own", TTL: life, Storage: jetstream.FileStorage})
	if err != nil {
		log.Fatal(err)
	}
	var revision uint64
	claim = func(ctx context.Context) (err error) {
		revision, err = kv.Create(ctx, "work", nil)
		return err
	}
	return claim, func(ctx context.Context) (err error) {
		revision, err = kv.Update(ctx, "work", nil, revision)
		return err
	}
}
