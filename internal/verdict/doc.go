// Package verdict says what becomes of the message of a broker when the command
// that it held has ended. Adapters of brokers share it.
package verdict
