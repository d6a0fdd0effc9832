// Package runfolder is where a run is kept: the folder's name and place, its manifest run.json, and how a person's word for
// a run ("latest", a prefix, a path) finds it again.
//
//	OUT/20261130T120000Z-train.py/
//	    run.json              manifest: what ran, where, when, how it ended (this package)
//	    report.json           findings (package report)
//	    spans.otlp.jsonl      OTLP/JSON (package otelio)
//	    metrics.otlp.jsonl
//	    recording/            snapshots (package snapshot)
//	    ptlaunch.log
//
// Every file but the recording and the JSON lines is written whole and renamed into place: whatever kills the agent, a
// reader finds the old content or the new one. Nothing is safe for concurrent use; two runs use two folders.
//
// It imports package model only, and package snapshot for its types.
package runfolder
