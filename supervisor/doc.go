// Package supervisor keeps a row of children alive: it starts them in order,
// starts those afresh that fail, gives up when that happens too often, and stops
// them in reverse order.
//
// The semantics are those of Erlang/OTP's supervisor, on protoactor's actors:
//
//   - a child is started when the one before it has said that it is ready;
//   - when a child fails, the [Strategy] says who is stopped and started afresh
//     with it, in reverse order and in order;
//   - each failure counts against the [Intensity]. One too many and the
//     supervisor gives up with an [*EscalationError];
//   - a child that is told to stop has a time limit. One that does not keep it
//     is abandoned: its name is reported, and nobody waits for it any more.
//
// An incarnation of a child is never revived. It is stopped, awaited, and
// followed by a new actor under a new name, so that no late message of the old
// one is taken for the new one's.
//
// At present a [Tree] is what a pipeline hangs its stages and its controller in.
package supervisor
