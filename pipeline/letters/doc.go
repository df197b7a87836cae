// Package letters has the letters of a pipeline: records of commands that ended
// without an answer, or that failed.
//
// A [Store] has the dead letters of a pipeline, its failures, or the letters in
// quarantine. A [Filter] selects letters, to list, retry or drop them.
//
//	for _, l := range p.DeadLetters().List(letters.Filter{Stage: "send"}) {
//		log.Print(l.ID, l.Reason, l.Err)
//	}
//
// [Options] say how many letters are kept, and where; they are given to
// pipeline.KeepLetters. A [Type] says how the letters of commands of one type
// are measured and written.
package letters
