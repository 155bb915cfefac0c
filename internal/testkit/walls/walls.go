// Package walls finds what a part of a program can reach, so that a test can demand that this is not its owner.
package walls

import (
	"reflect"
	"slices"
)

// Reach gives the types that a value of a struct type reaches by its fields, through pointers, slices, arrays, maps
// and channels. An interface ends the way. The type itself is among them only if a field reaches it.
//
// A function may reach anything. Reach gives the unnamed types of functions that structs of the packages at home
// have as fields; one of a different package does not reach the parts of these.
func Reach(part reflect.Type, home ...string) (types map[reflect.Type]bool, functions []reflect.Type) {
	w := walk{home: home, types: map[reflect.Type]bool{}}
	w.fields(part)
	return w.types, w.functions
}

type walk struct {
	home      []string
	types     map[reflect.Type]bool
	functions []reflect.Type
}

func (w *walk) fields(of reflect.Type) {
	for i := range of.NumField() {
		w.enter(of.Field(i).Type, slices.Contains(w.home, of.PkgPath()))
	}
}

func (w *walk) enter(of reflect.Type, home bool) {
	switch of.Kind() {
	case reflect.Map:
		w.enter(of.Key(), home)
		w.enter(of.Elem(), home)
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
		w.enter(of.Elem(), home)
	case reflect.Func:
		if home && of.PkgPath() == "" {
			w.functions = append(w.functions, of)
		}
	case reflect.Struct:
		if !w.types[of] {
			w.types[of] = true
			w.fields(of)
		}
	}
}
