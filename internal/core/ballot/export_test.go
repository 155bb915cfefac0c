package ballot

// AppendKey appends what distinguishes two ballots of one member at one moment: all deadlines follow
// from that.
func (b *Ballot) AppendKey(key []byte) []byte {
	key = append(key, byte(b.number), byte(b.own.Number), byte(b.own.Token.Epoch), bit(b.saved))
	for _, v := range b.voters {
		key = append(key, v.id[0], byte(v.state), bit(v.again))
		key = v.answer.AppendKey(key)
	}
	if b.promise.Number == 0 {
		return append(key, '.')
	}
	return append(key, b.to[0], byte(b.promise.Number), byte(b.promise.Token.Epoch))
}

// AppendKey appends what distinguishes two answers of one member.
func (a Answer) AppendKey(key []byte) []byte {
	key = append(key, byte(a.Number), byte(a.Reason), byte(a.Wait/1e8), byte(a.Highest), byte(a.Follows.Epoch))
	return append(key, a.Follows.Leader.ID...)
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}
