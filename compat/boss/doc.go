// Package boss makes a Node use the protocol of docs/sources.md, "Scrapper": nodes identified by
// their IP address elect a boss by JSON over temporary TCP connections. Members that run batuta
// and programs without any support for it mix in a cluster, so such a system can be replaced
// node by node.
//
// The Machine's messages are mapped to that protocol as follows; docs/boss-protocol.md describes
// the frames.
//
//	ELECTION     election, on a temporary connection
//	ANSWER       election_response, the reply on it; no reply: the connection is closed
//	COORDINATOR  new_boss, then a temporary identification with is_boss true
//	Query        a temporary identification as a question; its reply is the Report
//	Beat, Ack    between batuta members heartbeat, on the persistent connection of a
//	             subordinate and its boss; for a foreign member they are made up here
//	             while that connection is open and not silent for 90 s
//	Handover     to a foreign boss an election from an address below all: it asks this
//	             member in turn, which answers, and leads no longer
//	all further  only between batuta members, in a field that foreign programs ignore
//
// A link is not a connection here. It lasts from the last exchange with a member until the
// Machine hangs up, the persistent connection ends, or an exchange fails.
//
// What is lost: foreign members have no epochs. When a foreign member announces itself, each
// batuta member gives it the next epoch above the highest that it has seen, so epochs here still
// never decrease. Two batuta members may number such a boss differently until they communicate.
// A foreign member acknowledges nothing, so a boss that receives from foreign members but
// reaches none does not step down.
package boss
