package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"net/url"
	"reflect"
	"time"
)

const slicesPath = "/apis/resource.k8s.io/v1/resourceslices"

type metadata struct {
	Name            string `json:"name"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

type resourceSlice struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   metadata       `json:"metadata"`
	Spec       map[string]any `json:"spec"`
}

// spec has the devices of the node, as the scheduler sees them.
func spec(node string, generation float64) map[string]any {
	var published []any
	for index, name := range devices {
		attributes := map[string]any{"index": map[string]any{"int": index}}
		published = append(published, map[string]any{"name": name, "attributes": attributes})
	}
	pool := map[string]any{"name": node, "generation": generation, "resourceSliceCount": 1}
	return map[string]any{"driver": driverName, "nodeName": node, "pool": pool, "devices": published}
}

// keepPublished brings the slices into line now and after each change: the node deletes those of a driver that is gone.
func keepPublished(ctx context.Context, a *api, node string) {
	for ctx.Err() == nil {
		version, err := publish(ctx, a, node)
		if err == nil {
			err = untilChanged(ctx, a, node, version)
		}
		if err != nil && ctx.Err() == nil {
			log.Printf("not published: %v", err)
			time.Sleep(time.Second)
		}
	}
}

func mine(node string) string {
	return "?fieldSelector=" + url.QueryEscape("spec.driver="+driverName+",spec.nodeName="+node)
}

// publish returns the resource version that it has seen.
func publish(ctx context.Context, a *api, node string) (string, error) {
	var found struct {
		Metadata metadata
		Items    []resourceSlice
	}
	if err := a.call(ctx, http.MethodGet, slicesPath+mine(node), nil, &found); err != nil {
		return "", err
	}
	newest, current, name := 0.0, resourceSlice{}, node+"-"+driverName
	for _, each := range found.Items {
		pool, _ := each.Spec["pool"].(map[string]any)
		if generation, _ := pool["generation"].(float64); generation > newest {
			newest = generation
		}
		if each.Metadata.Name == name {
			current = each
		} else if err := a.call(ctx, http.MethodDelete, slicesPath+"/"+each.Metadata.Name, nil, &struct{}{}); err != nil {
			return "", err // an earlier version of this driver published it
		}
	}
	if equal(current.Spec, spec(node, newest)) {
		return found.Metadata.ResourceVersion, nil
	}
	written := resourceSlice{"resource.k8s.io/v1", "ResourceSlice", metadata{Name: name}, spec(node, newest+1)}
	method, path := http.MethodPost, slicesPath
	if current.Spec != nil {
		written.Metadata.ResourceVersion = current.Metadata.ResourceVersion
		method, path = http.MethodPut, slicesPath+"/"+name
	}
	log.Printf("publishing %d devices", len(devices))
	return found.Metadata.ResourceVersion, a.call(ctx, method, path, written, &struct{}{})
}

func equal(found, wanted map[string]any) bool {
	var read map[string]any
	text, err := json.Marshal(wanted)
	return err == nil && json.Unmarshal(text, &read) == nil && reflect.DeepEqual(found, read)
}

// untilChanged waits for one event, a minute at most.
func untilChanged(ctx context.Context, a *api, node, version string) error {
	path := slicesPath + mine(node) + "&watch=1&timeoutSeconds=60&resourceVersion=" + version
	body, err := a.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	_ = json.NewDecoder(body).Decode(&struct{}{}) // an error is the end of the watch: look at the slices, too
	return nil
}
