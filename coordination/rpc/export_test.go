package rpc

// Open returns how many requests the node serves or has to serve.
func Open(n *Node) (open int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.processes {
		p.mu.Lock()
		open += len(p.open)
		p.mu.Unlock()
	}
	for _, p := range n.peers {
		open += len(p.served) + len(p.calls)
	}
	return open
}

// Coordinated returns how many messages between processes and synchronizers the node has sent.
func Coordinated(n *Node) uint64 { return n.coordinated.Load() }

// Load returns how many requests of another node are under way.
func Load(n *Node, from string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.loads[from].requests
}

// KeptRules returns for how many functions a node keeps rules.
func KeptRules(n *Node) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, rules := range n.rules {
		for _, r := range rules {
			count += len(r.Methods)
		}
	}
	return count
}
