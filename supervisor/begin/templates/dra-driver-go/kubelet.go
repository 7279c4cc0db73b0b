package main

// Register a DRA driver, publish its devices, and prepare claims by CDI files. You need not edit this.

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"time"

	pb "example.com/my-project/dra"
	"example.com/my-project/registration"
	"google.golang.org/grpc"
	"gopkg.in/yaml.v3"
)

const (
	account    = "/var/run/secrets/kubernetes.io/serviceaccount/"
	group      = "/apis/resource.k8s.io/v1"
	slicesPath = group + "/resourceslices"
)

type (
	object   = map[string]any
	metadata struct {
		Name            string `json:"name"`
		UID             string `json:"uid,omitempty"`
		ResourceVersion string `json:"resourceVersion,omitempty"`
	}
	resourceSlice struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   metadata `json:"metadata"`
		Spec       object   `json:"spec"`
	}
	resourceClaim struct {
		Metadata metadata
		Status   struct {
			Allocation struct {
				Devices struct {
					Results []struct{ Driver, Pool, Device, Request string }
					Config  []object
				}
			}
		}
	}
)

// driver has the calls of the kubelet. The CDI files are its only state, so a restarted driver goes on with them.
type driver struct {
	pb.UnimplementedDRAPluginServer
	registration.UnimplementedRegistrationServer
	api       *api
	node, cdi string
	sent      string // devices of the last write
	stored    any    // and as the API stored them: it may put 1Gi for 1024Mi
}

// GetInfo names the driver and its services; without an endpoint they are on the socket of the registration.
func (d *driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	versions := []string{"v1.DRAPlugin"}
	return &registration.PluginInfo{Type: "DRAPlugin", Name: driverName, SupportedVersions: versions}, nil
}

func (d *driver) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered: %t %s", status.PluginRegistered, status.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

// NodePrepareResources is called before the first container of a pod starts. A claim that fails affects no other.
func (d *driver) NodePrepareResources(
	ctx context.Context, request *pb.NodePrepareResourcesRequest,
) (*pb.NodePrepareResourcesResponse, error) {
	answer := &pb.NodePrepareResourcesResponse{Claims: map[string]*pb.NodePrepareResourceResponse{}}
	for _, claim := range request.Claims {
		answer.Claims[claim.Uid] = &pb.NodePrepareResourceResponse{}
		if prepared, err := d.prepared(ctx, claim); err != nil {
			answer.Claims[claim.Uid].Error = err.Error()
		} else {
			answer.Claims[claim.Uid].Devices = prepared
		}
	}
	return answer, nil
}

// NodeUnprepareResources is called after the last pod of a claim has ended. An unknown claim is a success.
func (d *driver) NodeUnprepareResources(
	_ context.Context, request *pb.NodeUnprepareResourcesRequest,
) (*pb.NodeUnprepareResourcesResponse, error) {
	answer := &pb.NodeUnprepareResourcesResponse{Claims: map[string]*pb.NodeUnprepareResourceResponse{}}
	for _, claim := range request.Claims {
		answer.Claims[claim.Uid] = &pb.NodeUnprepareResourceResponse{}
		err := unprepare(claim.Uid)
		if err == nil {
			if err = os.Remove(d.cdiFile(claim.Uid)); os.IsNotExist(err) {
				err = nil
			}
		}
		if err != nil {
			answer.Claims[claim.Uid].Error = err.Error()
		}
	}
	return answer, nil
}

// prepared prepares the devices of this node that are allocated to a claim.
func (d *driver) prepared(ctx context.Context, asked *pb.Claim) ([]*pb.Device, error) {
	var claim resourceClaim
	path := group + "/namespaces/" + asked.Namespace + "/resourceclaims/" + asked.Name
	if err := d.api.call(ctx, http.MethodGet, path, nil, &claim); err != nil {
		return nil, err
	}
	if claim.Metadata.UID != asked.Uid {
		return nil, fmt.Errorf("%s/%s is another claim now", asked.Namespace, asked.Name)
	}
	known := map[any]bool{}
	for _, device := range devices() {
		known[device["name"]] = true
	}
	var prepared []*pb.Device
	edits := map[string]object{}
	for _, each := range claim.Status.Allocation.Devices.Results {
		if each.Driver != driverName || each.Pool != d.node {
			continue
		}
		if !known[each.Device] {
			return nil, fmt.Errorf("there is no device %s", each.Device)
		}
		edit, err := prepare(&claim, each.Device)
		if err != nil {
			return nil, err
		}
		name := asked.Uid + "-" + each.Device
		edits[name] = edit
		request, _, _ := strings.Cut(each.Request, "/")
		prepared = append(prepared, &pb.Device{
			RequestNames: []string{request}, PoolName: each.Pool, DeviceName: each.Device,
			CdiDeviceIds: []string{driverName + "/device=" + name},
		})
	}
	if prepared == nil {
		return nil, fmt.Errorf("%s/%s is allocated no device of this driver", asked.Namespace, asked.Name)
	}
	return prepared, d.writeCDI(asked.Uid, edits)
}

func (d *driver) cdiFile(uid string) string { return filepath.Join(d.cdi, driverName+"-"+uid+".json") }

// writeCDI writes the CDI file of a claim: a temporary file, renamed.
func (d *driver) writeCDI(uid string, edits map[string]object) error {
	var declared []object
	for name, edit := range edits {
		declared = append(declared, object{"name": name, "containerEdits": edit})
	}
	text, err := json.Marshal(object{"cdiVersion": "0.5.0", "kind": driverName + "/device", "devices": declared})
	if err != nil {
		return err
	}
	temporary := filepath.Join(d.cdi, "."+driverName+"-"+uid+".tmp")
	if err := os.WriteFile(temporary, text, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, d.cdiFile(uid))
}

// publish brings the slices into line, whoever has changed or deleted them, and returns the version that it has seen.
func (d *driver) publish(ctx context.Context, selector string) (string, error) {
	var found struct {
		Metadata metadata
		Items    []resourceSlice
	}
	if err := d.api.call(ctx, http.MethodGet, slicesPath+selector, nil, &found); err != nil {
		return "", err
	}
	newest, current, name := 0.0, resourceSlice{}, d.node+"-"+driverName
	for _, each := range found.Items {
		pool, _ := each.Spec["pool"].(object)
		if generation, _ := pool["generation"].(float64); generation > newest {
			newest = generation
		}
		if each.Metadata.Name == name {
			current = each
		} else if err := d.api.call(ctx, http.MethodDelete, slicesPath+"/"+each.Metadata.Name, nil, &object{}); err != nil {
			return "", err // an earlier version of this driver published it
		}
	}
	pool := object{"name": d.node, "generation": newest, "resourceSliceCount": 1.0}
	wanted := devices()
	if fmt.Sprint(wanted) == d.sent && reflect.DeepEqual(current.Spec["devices"], d.stored) &&
		reflect.DeepEqual(current.Spec["pool"], pool) {
		return found.Metadata.ResourceVersion, nil
	}
	pool["generation"] = newest + 1
	spec := object{"driver": driverName, "nodeName": d.node, "pool": pool, "devices": wanted}
	written := resourceSlice{"resource.k8s.io/v1", "ResourceSlice", metadata{Name: name}, spec}
	method, path := http.MethodPost, slicesPath
	if current.Spec != nil {
		written.Metadata.ResourceVersion = current.Metadata.ResourceVersion
		method, path = http.MethodPut, slicesPath+"/"+name
	}
	var stored resourceSlice
	if err := d.api.call(ctx, method, path, written, &stored); err != nil {
		return "", err
	}
	d.sent, d.stored = fmt.Sprint(wanted), stored.Spec["devices"]
	log.Printf("published %d devices, generation %v", len(wanted), newest+1)
	return found.Metadata.ResourceVersion, nil
}

// keepPublished publishes now and after each change: the node deletes the slices of a driver that is gone.
func (d *driver) keepPublished(ctx context.Context) {
	selector := "?fieldSelector=" + url.QueryEscape("spec.driver="+driverName+",spec.nodeName="+d.node)
	for ctx.Err() == nil {
		version, err := d.publish(ctx, selector)
		if err == nil { // wait for one event, a minute at most; an error is the end of the watch, too
			var body io.ReadCloser
			path := slicesPath + selector + "&watch=1&timeoutSeconds=60&resourceVersion=" + version
			if body, err = d.api.open(ctx, http.MethodGet, path, nil); err == nil {
				_ = json.NewDecoder(body).Decode(&object{})
				body.Close()
			}
		}
		if err != nil && ctx.Err() == nil {
			log.Printf("not published: %v", err)
			time.Sleep(time.Second)
		}
	}
}

// api is a client of the Kubernetes API, the few calls that a driver needs.
type api struct {
	server, tokenFile string
	client            http.Client
}

// connect uses the first cluster and user of KUBECONFIG, which hold certificates, or else the pod's service account.
func connect() (*api, error) {
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server    string
				Authority string `yaml:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Certificate string `yaml:"client-certificate-data"`
				Key         string `yaml:"client-key-data"`
			}
		}
	}
	trust := &tls.Config{RootCAs: x509.NewCertPool()}
	a := &api{client: http.Client{Transport: &http.Transport{TLSClientConfig: trust}}}
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		a.server, a.tokenFile = "https://"+net.JoinHostPort(host, port), account+"token"
		authority, err := os.ReadFile(account + "ca.crt")
		trust.RootCAs.AppendCertsFromPEM(authority)
		return a, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &config); err != nil || len(config.Clusters) == 0 || len(config.Users) == 0 {
		return nil, fmt.Errorf("%s has no cluster or user: %v", path, err)
	}
	cluster, user := config.Clusters[0].Cluster, config.Users[0].User
	a.server = cluster.Server
	trust.RootCAs.AppendCertsFromPEM(decoded(cluster.Authority))
	pair, err := tls.X509KeyPair(decoded(user.Certificate), decoded(user.Key))
	trust.Certificates = []tls.Certificate{pair}
	return a, err
}

func decoded(data string) []byte {
	found, _ := base64.StdEncoding.DecodeString(data)
	return found
}

// call sends and reads JSON.
func (a *api) call(ctx context.Context, method, path string, sent, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := a.open(ctx, method, path, sent)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(io.LimitReader(body, 16<<20)).Decode(answer)
}

// open returns the body of an answer; the caller closes it.
func (a *api) open(ctx context.Context, method, path string, sent any) (io.ReadCloser, error) {
	content, err := json.Marshal(sent)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, a.server+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if token, err := os.ReadFile(a.tokenFile); err == nil { // the kubelet writes a new one now and then
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1024))
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	return response.Body, nil
}

// run serves until the context ends. The kubelet finds the socket, and finds it again when it has restarted.
func run(ctx context.Context) error {
	a, err := connect()
	if err != nil {
		return err
	}
	d := &driver{api: a, node: os.Getenv("NODE_NAME"), cdi: setting("CDI_ROOT", "/var/run/cdi")}
	if err := os.MkdirAll(d.cdi, 0o755); err != nil {
		return err
	}
	registry := filepath.Join(setting("NODEPLANE_KUBELET_DIR", "/var/lib/kubelet"), "plugins_registry")
	instance := setting("POD_UID", fmt.Sprint(os.Getpid())) // two versions may run at once, each as pid 1 of its pod
	socket := filepath.Join(registry, fmt.Sprintf("%.40s-%.8s-reg.sock", driverName, instance))
	os.Remove(socket) // that of a process that was killed
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	pb.RegisterDRAPluginServer(server, d)
	registration.RegisterRegistrationServer(server, d)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop() // and the socket is removed
	d.keepPublished(ctx)
	return nil
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}
