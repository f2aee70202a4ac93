//! Compiles the wire definition with a protobuf compiler written in Rust, so that no `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=fleet/v1/fleet.proto");
    let descriptors = protox::compile(["fleet/v1/fleet.proto"], ["."])?;
    // Ordered maps make encodings reproducible; `Bytes` lets one document be shared by all sessions.
    tonic_prost_build::configure()
        .btree_map(".")
        .codec_path("crate::codec::FleetCodec")
        .bytes(".lanekeeper.fleet.v1.ConfigPush.document")
        .emit_rerun_if_changed(false)
        .compile_fds(descriptors)?;
    Ok(())
}
