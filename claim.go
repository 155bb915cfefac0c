package batuta

import (
	"reflect"
	"sync"
)

// claimed has the algorithm of every node that runs in this process, as a
// set of claim. It is the package's, since two nodes may have nothing in common but that value.
var claimed sync.Map

// claim is what two nodes cannot both step.
type claim struct {
	of      reflect.Type
	pointer uintptr // kept alive by the node's Config
}

// claimOf is false for an algorithm that is copied when it is given, or has nothing in it.
func claimOf(a Algorithm) (claim, bool) {
	v := reflect.ValueOf(a)
	switch v.Kind() {
	case reflect.Pointer:
		return claim{v.Type(), v.Pointer()}, v.Type().Elem().Size() > 0
	case reflect.Map, reflect.Chan:
		return claim{v.Type(), v.Pointer()}, true
	}
	return claim{}, false
}

// claim makes the algorithm this node's, unless it is another's.
func (n *Node) claim() error {
	c, shared := claimOf(n.cfg.Algorithm)
	if !shared {
		return nil
	}
	if _, taken := claimed.LoadOrStore(c, true); taken {
		return config("algorithm %s is that of another Node, which would step it at the same time: give each Node a value of its own, by calling what makes it, such as bully.New(), for each", n.cfg.Algorithm.Name())
	}
	return nil
}

// release lets another node have the algorithm.
func (n *Node) release() {
	if c, shared := claimOf(n.cfg.Algorithm); shared {
		claimed.Delete(c)
	}
}
