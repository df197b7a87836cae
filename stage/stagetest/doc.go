// Package stagetest is Golda's test kit.
package stagetest
