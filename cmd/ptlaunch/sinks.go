package main

import (
	"log/slog"

	"github.com/ptlaunch/ptlaunch/internal/agent"
	"github.com/ptlaunch/ptlaunch/internal/config"
	"github.com/ptlaunch/ptlaunch/internal/model"
	"github.com/ptlaunch/ptlaunch/internal/runfolder"
)

// openSinks opens everything that takes findings elsewhere, and says for a person what could not be opened.
func openSinks(run model.Run, cfg config.Config, folder *runfolder.Folder, log *slog.Logger) (sinks []agent.Sink, notes []string) {
	return nil, nil
}
