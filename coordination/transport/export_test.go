package transport

// Cut breaks the connections between two nodes.
func Cut(a, b Transport) {
	s := a.(*socket)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.peers[b.Node()]; p != nil {
		for _, c := range p.conns {
			_ = c.Close()
		}
	}
}
