package inbox

import "github.com/golda-dev/golda/stage/queue"

// Ordered reports whether what comes of the stage's commands leaves in the order of their arrival.
func (in *Inbox) Ordered() bool { return in.cfg.Ordered }

// number tells a worker the numbers of its batch of n commands.
func (s *state) number(m *Member, n int) {
	if m.Numbers == nil {
		m.Numbers = new(Numbers)
	}
	s.queue.sequence.number(m.Numbers, n)
	m.numbers = append(m.numbers[:0], m.Numbers.of...)
}

// endNumbers ends the numbers of commands of an ordered stage. Keys of other stages are none.
func (s *state) endNumbers(numbers []queue.Key) {
	if s.queue.sequence == nil {
		return
	}
	for _, number := range numbers {
		s.queue.sequence.end(uint64(number))
	}
}

// abandonNumbers ends the numbers of what an abandoned worker had in its batch.
func (s *state) abandonNumbers(m *Member) {
	if s.queue.sequence == nil {
		return
	}
	for _, number := range m.numbers[max(len(m.numbers)-int(m.inHand), 0):] {
		s.queue.sequence.end(number)
	}
	s.queue.sequence.succeed(m.Numbers, nil)
}
