package invariant

// Members: which processes are members.
const (
	Member  = "nobody follows or leads who is no member as far as it knows"
	OneList = "once faults stop, every connected group of live members comes to one list, and who was removed has gone"
)

var ofMembers = []Rule{
	{Name: Member, Where: "soak with membership",
		Why:    "A stranger or a removed member that leads or is followed undoes the removal.",
		Mutant: "follows a stranger"},
	{Name: OneList, Where: "soak with membership",
		Why:    "Members that differ on who is one differ, sooner or later, on who leads.",
		Mutant: "does not compare lists"},
}
