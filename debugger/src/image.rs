//! Where the program and its libraries lie.

use bugnet_format::folder::Module;
use bugnet_format::types::{Addr, ProcessId};
use bugnet_replay::ReplayError;
use bugnet_replay::log::Log;
use bugnet_replay::symbols::{main_file, module_head};
use object::elf::{FileHeader64, PT_DYNAMIC, PT_LOAD, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{File, LittleEndian, Object, ObjectSymbol, pod};

type Header = FileHeader64<LittleEndian>;
type Segment = ProgramHeader64<LittleEndian>;

/// What gdb asks of a process's files.
#[derive(Debug, Default)]
pub struct Image {
    /// Path of the ELF file that it executes.
    pub program: String,
    /// What is known of the auxiliary vector: where the program and the dynamic loader lie.
    pub auxv: Vec<u8>,
    /// All ELF files that were mapped at some time.
    pub modules: Vec<Module>,
    /// Of each of them, what gdb is told of it as a library; none if it is none.
    libraries: Vec<Option<String>>,
    /// The dynamic loader.
    pub loader: Option<Loader>,
}

/// The dynamic loader of a program.
#[derive(Clone, Debug)]
pub struct Loader {
    /// By which path the program asks for it.
    pub asked: String,
    /// The path of the file that was mapped.
    pub path: String,
}

/// The headers of an ELF file, as far as its first bytes hold them.
struct Headers {
    header: Header,
    segments: Vec<Segment>,
    /// Path of the dynamic loader.
    interpreter: Option<String>,
}

impl Headers {
    fn of(log: &Log, module: &Module) -> Option<Self> {
        let head = module_head(log.source(), module)?;
        let header = Header::parse(&*head).ok()?;
        let segments = header.program_headers(LittleEndian, &*head).ok()?.to_vec();
        let header = *pod::from_bytes::<Header>(&head).ok()?.0;
        let path = segments.iter().find_map(|segment| segment.interpreter(LittleEndian, &*head).ok()?);
        let interpreter = path.and_then(|path| String::from_utf8(path.to_vec()).ok());
        Some(Self { header, segments, interpreter })
    }

    fn loaded(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.p_type(LittleEndian) == PT_LOAD)
    }

    /// What is added to the file's own addresses where file offset 0 is mapped at `base`.
    fn bias(&self, base: u64) -> u64 {
        let first = self.loaded().next();
        let start = first.map_or(0, |s| s.p_vaddr(LittleEndian).wrapping_sub(s.p_offset(LittleEndian)));
        base.wrapping_sub(start & !(Addr::PAGE - 1))
    }

    /// The dynamic section, in the file's own addresses.
    fn dynamic(&self) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| segment.p_type(LittleEndian) == PT_DYNAMIC)?;
        Some(segment.p_vaddr(LittleEndian))
    }
}

/// The entries of the auxiliary vector that follow from where files are mapped.
fn auxv(program: Option<(&Module, &Headers)>, loader: Option<&Module>) -> Vec<u8> {
    let mut entries = vec![(libc::AT_PAGESZ, Addr::PAGE)];
    if let Some((module, headers)) = program {
        let header = &headers.header;
        entries.extend([
            (libc::AT_PHDR, module.base.wrapping_add(header.e_phoff(LittleEndian))),
            (libc::AT_PHENT, header.e_phentsize(LittleEndian).into()),
            (libc::AT_PHNUM, header.e_phnum(LittleEndian).into()),
            (libc::AT_ENTRY, header.e_entry(LittleEndian).wrapping_add(headers.bias(module.base))),
        ]);
    }
    entries.extend(loader.map(|module| (libc::AT_BASE, module.base)));
    entries.push((libc::AT_NULL, 0));
    entries.into_iter().flat_map(|(kind, value)| [kind.to_le_bytes(), value.to_le_bytes()]).flatten().collect()
}

/// What XML cannot have in an attribute, escaped.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

/// Where the loader has its list of libraries. New versions of gdb tell by this address which loader's namespace a library is of.
fn namespace(log: &Log, loader: &Module, headers: &Headers) -> Option<u64> {
    let bytes = main_file(log.source(), loader)?;
    let file = File::parse(&*bytes).ok()?;
    let list = file.dynamic_symbols().find(|symbol| symbol.name() == Ok("_r_debug"))?;
    Some(list.address().wrapping_add(headers.bias(loader.base)))
}

/// An entry of gdb's list of libraries.
fn library(module: &Module, headers: &Headers, namespace: u64) -> Option<String> {
    let bias = headers.bias(module.base);
    let dynamic = headers.dynamic()?.wrapping_add(bias);
    // gdb tells libraries apart by the address of their link maps, which is not known: their own does as well.
    Some(format!(
        r#"<library name="{}" lm="{:#x}" l_addr="{bias:#x}" l_ld="{dynamic:#x}" lmid="{namespace:#x}"/>"#,
        escaped(&module.path),
        module.base,
    ))
}

impl Image {
    /// Of a process.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn of(log: &Log, pid: ProcessId) -> Result<Self, ReplayError> {
        let modules = log.modules(pid)?;
        let info = log.processes()?.into_iter().find(|(id, _)| *id == pid).and_then(|(_, info)| info);
        let program = info.map_or_else(|| log.meta().program.clone(), |info| info.program);
        let headers: Vec<Option<Headers>> = modules.iter().map(|module| Headers::of(log, module)).collect();
        let with_headers = || modules.iter().zip(&headers).filter_map(|(m, h)| Some((m, h.as_ref()?)));
        let main = with_headers().find(|(module, _)| module.path == program);
        let asked = main.and_then(|(_, headers)| headers.interpreter.clone());
        // The program asks for it by a path that may lead through links: the file's name tells which it is.
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let is_loader = |module: &Module| asked.as_ref().is_some_and(|asked| name(asked) == name(&module.path));
        let loader = modules.iter().zip(&headers).find(|(module, _)| is_loader(module));
        let namespace = loader.and_then(|(module, headers)| namespace(log, module, headers.as_ref()?)).unwrap_or(0);
        let mapped = loader.map(|(module, _)| module);
        let libraries = modules.iter().zip(&headers).map(|(module, headers)| {
            let headers = headers.as_ref().filter(|_| module.path != program)?;
            library(module, headers, namespace)
        });
        let libraries = libraries.collect();
        let auxv = auxv(main, mapped);
        let loader = asked.zip(mapped).map(|(asked, mapped)| Loader { asked, path: mapped.path.clone() });
        Ok(Self { auxv, program, libraries, modules, loader })
    }

    /// gdb's list of libraries, of those of the ELF files that are mapped.
    #[must_use]
    pub fn libraries(&self, is_mapped: impl Fn(&Module) -> bool) -> String {
        let mapped = self.modules.iter().zip(&self.libraries).filter(|(module, _)| is_mapped(module));
        let list: String = mapped.filter_map(|(_, library)| library.as_deref()).collect();
        format!(r#"<library-list-svr4 version="1.0">{list}</library-list-svr4>"#)
    }
}
