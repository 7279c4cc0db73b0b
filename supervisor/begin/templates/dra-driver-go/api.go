package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

const (
	account  = "/var/run/secrets/kubernetes.io/serviceaccount/"
	maxReply = 16 << 20
	callTime = 10 * time.Second
)

// api is a client of the Kubernetes API, the few calls that a driver needs. A larger driver takes client-go instead.
type api struct {
	server, tokenFile string
	client            http.Client
}

// connect uses the first cluster and user of KUBECONFIG, which hold certificates, or else the pod's service account.
func connect() (*api, error) {
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		authority, err := os.ReadFile(account + "ca.crt")
		server := "https://" + os.Getenv("KUBERNETES_SERVICE_HOST") + ":" + os.Getenv("KUBERNETES_SERVICE_PORT")
		return newAPI(server, account+"token", authority), err
	}
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
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &config); err != nil || len(config.Clusters) == 0 || len(config.Users) == 0 {
		return nil, fmt.Errorf("%s has no cluster or user: %v", path, err)
	}
	cluster, user := config.Clusters[0].Cluster, config.Users[0].User
	pair, err := tls.X509KeyPair(decoded(user.Certificate), decoded(user.Key))
	return newAPI(cluster.Server, "", decoded(cluster.Authority), pair), err
}

func decoded(data string) []byte {
	found, _ := base64.StdEncoding.DecodeString(data)
	return found
}

func newAPI(server, tokenFile string, authority []byte, pairs ...tls.Certificate) *api {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: pairs}}
	return &api{server: server, tokenFile: tokenFile, client: http.Client{Transport: transport}}
}

// call sends and reads JSON.
func (a *api) call(ctx context.Context, method, path string, sent, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	body, err := a.open(ctx, method, path, sent)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(io.LimitReader(body, maxReply)).Decode(answer)
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
