// Protogen compiles .proto files and hands them to protoc's plugins for Go, in place of protoc, which is no Go program
// and so cannot be pinned in go.mod. See proto.sh.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: protogen ROOT OUT MODULE FILE...: compiles the files under ROOT into OUT, the directory of MODULE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(root, out, module string, files []string) error {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // the comments
	}
	compiled, err := compiler.Compile(context.Background(), files...)
	if err != nil {
		return err
	}
	var all []*descriptorpb.FileDescriptorProto
	for _, f := range compiled {
		all = append(all, protoutil.ProtoFromFileDescriptor(f))
	}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := generate(plugin, out, module, files, all); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return nil
}

func generate(plugin, out, module string, files []string, all []*descriptorpb.FileDescriptorProto) error {
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: files, Parameter: new("module=" + module), ProtoFile: all,
	})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(request), os.Stderr
	reply, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(reply, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}
	for _, f := range response.GetFile() {
		name := filepath.Join(out, filepath.FromSlash(f.GetName()))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // source is for all to read
			return err
		}
		if err := os.WriteFile(name, []byte(f.GetContent()), 0o644); err != nil { //nolint:gosec // source is for all to read
			return err
		}
	}
	return nil
}
