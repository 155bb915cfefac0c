// Package walls finds what a part of a program can reach, so that a test can demand that this is not its owner.
package walls

import (
	"reflect"
	"slices"
)

// Reach gives the types that a value of a struct type reaches by its fields, through pointers, slices, arrays, maps
// and channels. An interface ends the way. The type itself is among them only if a field reaches it.
//
// A function may reach anything. Reach gives the fields of unnamed function types that structs of the packages at home
// have; one of a different package does not reach the parts of these.
func Reach(part reflect.Type, home ...string) (types map[reflect.Type]bool, functions []Function) {
	w := walk{home: home, types: map[reflect.Type]bool{}}
	w.fields(part)
	return w.types, w.functions
}

// Function is a field that is a function, or has functions.
type Function struct {
	Owner reflect.Type // the struct
	Field string
	Type  reflect.Type // of the function
}

type walk struct {
	home      []string
	types     map[reflect.Type]bool
	functions []Function
}

func (w *walk) fields(of reflect.Type) {
	for i := range of.NumField() {
		w.enter(of.Field(i).Type, Function{Owner: of, Field: of.Field(i).Name}, slices.Contains(w.home, of.PkgPath()))
	}
}

func (w *walk) enter(of reflect.Type, at Function, home bool) {
	switch of.Kind() {
	case reflect.Map:
		w.enter(of.Key(), at, home)
		w.enter(of.Elem(), at, home)
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
		w.enter(of.Elem(), at, home)
	case reflect.Func:
		if home && of.PkgPath() == "" {
			at.Type = of
			w.functions = append(w.functions, at)
		}
	case reflect.Struct:
		if !w.types[of] {
			w.types[of] = true
			w.fields(of)
		}
	}
}
