// Package quorum elects one leader, never two, by a majority that votes.
package quorum
