package nats

// ShareOf is for tests that need keys in different partitions.
var ShareOf = shareOf
