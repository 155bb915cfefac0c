package main

import (
	"cmp"
	"net/url"
	"os"
	"strings"

	client "github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/s3"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

type s3Flags struct {
	url, endpoint, region, ca string // ca is a file
}

func (f *s3Flags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.url, "s3", "", "`URL` of a bucket and a prefix in an S3 store with conditional writes, such as s3://bucket/prefix; credentials as the AWS CLI finds them")
	fs.StringVar(&f.endpoint, "s3-endpoint", "", "`URL` of the store, such as https://s3.example:9000 (default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or AWS)")
	fs.StringVar(&f.region, "s3-region", "", "`NAME` of the bucket's region (default AWS_REGION, AWS_DEFAULT_REGION, or us-east-1)")
	fs.StringVar(&f.ca, "s3-ca", "", "`FILE` with the authorities to accept for the store (default the system's)")
}

func (f *s3Flags) extra() bool { return f.endpoint+f.region+f.ca != "" }

func (f *s3Flags) open(election string) (engines.Engine, error) {
	bucket, err := url.Parse(f.url)
	if err != nil || bucket.Scheme != "s3" || bucket.User != nil || bucket.RawQuery+bucket.Fragment != "" || s3utils.CheckValidBucketNameStrict(bucket.Host) != nil {
		return nil, cli.Usagef("--s3: give a URL such as s3://bucket/prefix, without credentials")
	}
	given := cmp.Or(f.endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	endpoint, err := url.Parse(cmp.Or(given, "https://s3.amazonaws.com"))
	if err != nil || endpoint.Scheme != "https" && endpoint.Scheme != "http" || endpoint.Host == "" || endpoint.User != nil || strings.Trim(endpoint.Path, "/")+endpoint.RawQuery != "" {
		return nil, cli.Usagef("--s3-endpoint: give a URL such as https://s3.example:9000, without credentials and a path")
	}
	if f.ca != "" && endpoint.Scheme != "https" {
		return nil, cli.Usagef("--s3-endpoint %s: --s3-ca is given; write https://%s", endpoint, endpoint.Host)
	}
	certificates, err := clientTLS("s3", f.ca, "", "")
	if err != nil {
		return nil, err
	}
	transport := plainHTTP(certificates)
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	if given == "" {
		providers = append(providers, &credentials.IAM{})
	}
	keys := credentials.NewChainCredentials(providers)
	c, err := client.New(endpoint.Host, &client.Options{Creds: keys, Secure: endpoint.Scheme == "https", Transport: transport, MaxRetries: 1,
		Region: cmp.Or(f.region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), "us-east-1")})
	if err != nil {
		return nil, cli.Usagef("--s3-endpoint: %w", err)
	}
	flags := "--s3 " + f.url
	if os.Getenv("AWS_ACCESS_KEY_ID") == "" {
		flags += " (AWS_ACCESS_KEY_ID is not set)"
	}
	key := cmp.Or(strings.Trim(bucket.Path, "/"), "batuta") + "/" + escape(election)
	return held{s3.New(c, bucket.Host, key), func() error { transport.CloseIdleConnections(); return nil }, flags, keys.Expire}, nil // a file may have other credentials by now
}
