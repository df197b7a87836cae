// Package brokertest tests adapter/watermill with real brokers: one table of
// promises, and each broker that keeps them. The brokers are those of Debian's
// packages redis-server and rabbitmq-server; the tests start them on free ports
// of the loopback, and kill them. A test whose broker is not installed is
// skipped, and fails if GOLDA_BROKERS is "required".
//
// It is a module of its own, because the clients of brokers are for these tests
// only.
package brokertest
