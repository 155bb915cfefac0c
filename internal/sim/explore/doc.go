// Package explore tries every order of events of a small cluster: deliveries, timers,
// crashes, restarts and false suspicions, without time; of cores that keep time
// themselves, with what time passes when nothing is left to deliver. [Search] goes breadth
// first, so that what breaks a rule comes out as a shortest script; [Play] plays such a
// script.
package explore
