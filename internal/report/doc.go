// Package report turns a run into words: report.json, the lines on the terminal, and rows of figures.
//
//	Frame, Findings -> Recorder.Consume … Recorder.Conclude -> *Document -> report.json
//	                                                            Document -> Text
//
// A Recorder holds bounded state however long the run is. Everything in a Document comes from the frames, the findings and
// the outcome, so that a replay of the recording gives the same one. Text is rendered from a Document alone: the terminal at
// the end of the run and `ptlaunch report` a year later say the same.
//
// What to try follows from the cause and from nothing else: one table, advice.go.
//
// A Recorder belongs to one goroutine. The package imports model, detect and snapshot, and neither the agent nor any
// exporter.
package report
