package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/engines"
)

// Raw is a record as an engine keeps it, with whatever a person, a program or a failing disk has left in it.
type Raw struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Process string `json:"process"`
	Epoch   int64  `json:"epoch"`
	Lasts   int64  `json:"lasts_ms"`
}

// Damage checks that an engine reads a sound record, and refuses each record that is damaged. Put writes the record of an
// election; write, if the engine keeps a text, writes that. Dial gives an engine of the election. Place, with the election's
// name for %s, is where errors find the record.
func Damage(t *testing.T, place string, put func(name string, r Raw), write func(name, text string), dial func(name string) engines.Engine) {
	t.Helper()
	sound := Raw{ID: "1", Address: "10.0.0.1:80", Process: "p", Epoch: 1, Lasts: 60_000}
	text, err := json.Marshal(sound)
	if err != nil {
		t.Fatal(err)
	}
	if put == nil {
		put = func(name string, r Raw) {
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			write(name, string(text))
		}
	}
	put("sound", sound)
	engine := dial("sound")
	if r, err := engine.Look(t.Context()); err != nil || r.ID != "1" || r.Address != sound.Address || r.Process != "p" || r.Epoch == 0 || r.Lasts != time.Minute {
		t.Errorf("a sound record is read as %+v, %v", r, err)
	}
	engine.Close()
	for i, change := range []func(r *Raw){
		func(r *Raw) { r.Lasts = 0 },
		func(r *Raw) { r.Lasts = -1000 },
		func(r *Raw) { r.Lasts = math.MaxInt64 },
		func(r *Raw) { r.Lasts = 9e18 },                                    // overflows a duration
		func(r *Raw) { r.Lasts = math.MaxInt64 / int64(time.Millisecond) }, // does not
		func(r *Raw) { r.Lasts = engines.MaxLease.Milliseconds() + 1 },
		func(r *Raw) { r.Process = "" },
		func(r *Raw) { r.Process = strings.Repeat("p", 129) },
		func(r *Raw) { r.ID = strings.Repeat("i", election.MaxID+1) },
		func(r *Raw) { r.ID = "a\nb" },
		func(r *Raw) { r.Address = strings.Repeat("a", 257) },
		func(r *Raw) { r.Address = "a\nb" },
		func(r *Raw) { r.Epoch = -3 },
		func(r *Raw) { r.Epoch = 1 << 62 },
	} {
		name, damaged := fmt.Sprint("field", i), sound
		change(&damaged)
		put(name, damaged)
		Refuses(t, dial(name), fmt.Sprintf(place, name))
	}
	if write == nil {
		return
	}
	for i, text := range []string{
		"", "hello", "null", "[]", "{}", `"x"`, "\x00\xff", string(text[:len(text)-1]), string(text) + "{}", string(text) + "x",
		strings.Replace(string(text), `"1"`, "1", 1), strings.Replace(string(text), "60000", `"60000"`, 1), strings.Replace(string(text), "60000", "1.5", 1),
		strings.Replace(string(text), "60000", "1e30", 1), `{"id":"1","process":"p","epoch":1}`, `{"resigned":true}`,
		strings.Replace(string(text), "{", `{"x":"`+strings.Repeat("x", 20<<10)+`",`, 1),
	} {
		name := fmt.Sprint("text", i)
		write(name, text)
		Refuses(t, dial(name), fmt.Sprintf(place, name))
	}
}

// Refuses checks that the record of an engine is refused by an error that begins with its place, that a candidate reports so
// and does not lead, and that it ends.
func Refuses(t *testing.T, engine engines.Engine, place string) {
	t.Helper()
	r, err := engine.Look(t.Context())
	if !errors.Is(err, engines.ErrDamaged) || !strings.HasPrefix(err.Error(), place+" is not batuta's, or is damaged: ") || !strings.Contains(err.Error(), "delete it") ||
		strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
		t.Errorf("%s: the record is read as %+v, %v", place, r, err)
		engine.Close()
		return
	}
	e := Start(t, engine, engines.Config{ID: "2", StandAlways: true})
	Reports(t, e, err.Error())
	if err := e.Close(); err != nil {
		t.Errorf("%s: %v", place, err)
	}
}
