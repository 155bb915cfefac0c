// Package boss has a Node speak the protocol of docs/sources.md, "Scrapper": nodes known by their
// IP address elect a boss by JSON over temporary TCP connections. Members that
// run batuta and programs that know nothing of it mix in one cluster, so that
// such a system can be replaced node by node.
//
// What the Machine does is mapped to that protocol as follows; docs/boss-protocol.md
// describes the frames.
//
//	ELECTION     election, on a temporary connection
//	ANSWER       election_response, the reply on it; no reply: the connection is closed
//	COORDINATOR  new_boss, then a temporary identification with is_boss true
//	Query        a temporary identification, "who are you?"; its reply is the Report
//	Beat, Ack    between batuta members heartbeat, on the persistent connection of a
//	             subordinate and its boss; for a foreign member they are made up here
//	             for as long as that connection stands and is not silent for 90 s
//	Handover     to a foreign boss an election in nobody's name: it asks this member in
//	             turn, which answers, and leads no longer
//	others       between batuta members alone, in a field that foreign programs ignore
//
// A link is no connection here: it stands from the last exchange with a member
// until the Machine hangs up, the persistent connection ends, or an exchange fails.
//
// What is lost: foreign members know no epochs. When one announces itself, each
// batuta member gives it the next epoch above the highest that it knows, so that
// epochs here still never decrease; two batuta members may number such a boss
// apart until they talk. A foreign member acknowledges nothing, so a boss that
// hears foreign members but reaches none does not step down.
package boss
