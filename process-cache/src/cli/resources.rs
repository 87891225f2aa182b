//! Resource limits under which pcache itself could not work.

use rustix::process::{Resource, getrlimit};

/// The need of pcache for one resource.
struct Need {
    resource: Resource,
    /// The option of the shell's `ulimit`.
    option: char,
    smallest: u64,
    /// The unit in which `ulimit` counts, and its size.
    unit: (&'static str, u64),
}

/// A run of 1,500 units has 230 MiB of address space (the C library reserves 64 MiB for each
/// thread), and 20 MiB of data.
const NEEDS: [Need; 4] = [
    // The store, and memory shared with the command's processes.
    kib(Resource::Fsize, 'f', 64 << 20),
    kib(Resource::As, 'v', 512 << 20),
    kib(Resource::Data, 'd', 256 << 20),
    Need {
        resource: Resource::Nofile,
        option: 'n',
        smallest: 64,
        unit: ("", 1),
    },
];

const fn kib(resource: Resource, option: char, smallest: u64) -> Need {
    Need {
        resource,
        option,
        smallest,
        unit: (" KiB", 1024),
    }
}

/// Returns, in words, a limit that is too small for a cache.
pub(super) fn too_small() -> Option<String> {
    NEEDS.iter().find_map(|need| {
        let limit = getrlimit(need.resource).current?;
        let (unit, size) = need.unit;
        (limit < need.smallest).then(|| {
            format!(
                "ulimit -{} is {}{unit} here, and pcache needs {}{unit}",
                need.option,
                limit / size,
                need.smallest / size
            )
        })
    })
}
