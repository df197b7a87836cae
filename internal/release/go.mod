module github.com/golda-dev/golda/internal/release

go 1.26.0

require golang.org/x/mod v0.38.0
