package walls

import (
	"reflect"
	"testing"
	"time"
)

type owner struct {
	Parts []part
}

type part struct {
	Below map[string]*ground
	Until time.Time
}

type ground struct {
	Ask  chan struct{ By **leak }
	When func(time.Time)
	Any  any
}

type leak struct{ Owner [2]owner }

func TestReach(t *testing.T) {
	home := reflect.TypeFor[owner]().PkgPath()
	types, functions := Reach(reflect.TypeFor[part](), home)
	for _, of := range []reflect.Type{reflect.TypeFor[ground](), reflect.TypeFor[leak](), reflect.TypeFor[owner](), reflect.TypeFor[part](), reflect.TypeFor[time.Location]()} {
		if !types[of] {
			t.Errorf("%v is not reached", of)
		}
	}
	if len(functions) != 1 || functions[0] != (Function{reflect.TypeFor[ground](), "When", reflect.TypeFor[func(time.Time)]()}) {
		t.Errorf("functions: %v", functions)
	}
	if _, functions := Reach(reflect.TypeFor[part](), "elsewhere"); len(functions) > 0 {
		t.Errorf("functions that are not at home: %v", functions)
	}
	if types, _ := Reach(reflect.TypeFor[time.Time](), home); types[reflect.TypeFor[time.Time]()] {
		t.Error("a type that has no way to itself is reached")
	}
}
