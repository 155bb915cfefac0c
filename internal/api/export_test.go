package api

import "time"

// Routes are the calls that the API takes, each "METHOD /path".
func (s *Server) Routes() []string {
	var list []string
	for _, r := range s.routes() {
		list = append(list, r.method+" "+r.path)
	}
	return list
}

// GatherWithin sets how long gathering may take, and one member's answer.
func (s *Server) GatherWithin(whole, each time.Duration) {
	s.gatherer.whole, s.gatherer.each = whole, each
}

// Bears sets for how long a stream may be silent.
func (c *Client) Bears(silence time.Duration) { c.quiet = silence }
