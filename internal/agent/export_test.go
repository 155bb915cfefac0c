package agent

// Routes are the calls that the API takes, each "METHOD /path".
func (s *Server) Routes() []string {
	var list []string
	for _, r := range s.routes() {
		list = append(list, r.method+" "+r.path)
	}
	return list
}
