// Package explore tries every order of events of a small cluster: deliveries, timers, crashes,
// restarts and false suspicions. Such a search has no time. For cores that measure time
// themselves, time passes when nothing is left to deliver. [Search] goes breadth first, so it
// reports a broken rule as a shortest script. [Play] plays such a script.
package explore
