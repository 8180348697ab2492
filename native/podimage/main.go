// podimage speaks to registries of container images. The server starts it for one job at a time: it reads the
// job as JSON from stdin, writes progress and one result or error as JSON lines to stdout, and ends. It opens
// no file by name except the machine's certificates: everything it reads or writes is an open descriptor that
// the server hands it. It also reads Dockerfiles, with BuildKit's front end, build contexts, and Features of
// development containers.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"agentpod/podimage/internal/dockerfile"
	"agentpod/podimage/internal/feature"
	"agentpod/podimage/internal/job"
	"agentpod/podimage/internal/layers"
	"agentpod/podimage/internal/registry"
)

// heapPercent makes the collector run before the heap has doubled: a job copies streams and keeps little.
const heapPercent = 50

func main() {
	// SECURITY: IM-01. Registries are hostile, so nothing is read before root's rights are gone.
	if err := dropRights(); err != nil {
		job.Fail(job.Errorf(job.Internal, "podimage.rights", "podimage could not give up its rights: %v", err))
		os.Exit(1)
	}
	debug.SetGCPercent(heapPercent)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	asked, err := job.Read(os.Stdin)
	if err == nil {
		var result any
		if result, err = perform(ctx, asked); err == nil {
			job.Succeed(result)
			return
		}
	}
	job.Fail(err)
	os.Exit(1)
}

func perform(ctx context.Context, asked job.Job) (any, error) {
	switch asked.Op {
	case "resolve":
		return registry.Resolve(ctx, asked)
	case "layer":
		return layers.Fetch(ctx, asked)
	case "convert":
		return layers.Convert(asked)
	case "push":
		return registry.Push(ctx, asked)
	case "dockerfile":
		request, err := job.Decode[dockerfile.Request](asked.Dockerfile)
		if err != nil {
			return nil, err
		}
		return dockerfile.Convert(ctx, request)
	case "context":
		request, err := job.Decode[dockerfile.ContextRequest](asked.Context)
		if err != nil {
			return nil, err
		}
		return dockerfile.ReadContext(request)
	case "feature":
		request, err := job.Decode[feature.Request](asked.Feature)
		if err != nil {
			return nil, err
		}
		return feature.Fetch(ctx, asked, request)
	}
	return nil, job.Errorf(job.InvalidArgument, "job.op", "there is no operation %q", asked.Op)
}
