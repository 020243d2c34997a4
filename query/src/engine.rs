//! DataFusion, held to its memory.

use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use futures::StreamExt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use url::Url;

use crate::arguments::Question;
use crate::check;
use crate::failure::Failure;
use crate::folder::Records;
use crate::form::Writer;

/// What sorts and groups may leave on the disk for a while, bytes.
const DISK_BYTES: u64 = 20_000_000_000;

/// Answers a question.
pub(crate) fn ask(question: &Question) -> Result<(), Failure> {
    limit(question.memory);
    let records = Records::find(&question.records)?;
    let schema = check::columns(&records)?;
    // Threads that read files: by default there may be 512, each with its stack.
    let runtime = tokio::runtime::Builder::new_multi_thread().max_blocking_threads(16).build();
    let runtime = runtime.map_err(|why| Failure::new(format!("no thread: {why}"), "ulimit -u"))?;
    let answered = AssertUnwindSafe(|| runtime.block_on(answer(question, &records, schema)));
    panic::catch_unwind(answered).unwrap_or_else(|_| {
        // Which is printed above.
        Err(Failure::new(
            "DataFusion failed by a mistake of its own",
            "another engine: \
            docs/guide/fleet-records.md has DuckDB and ClickHouse",
        ))
    })
}

/// Beyond that no memory is had: a page of a file may claim to unpack to any size.
fn limit(memory: usize) {
    let limit = u64::try_from(memory).unwrap_or(u64::MAX);
    let former = getrlimit(Resource::Data);
    let current = former.current.map_or(limit, |former| former.min(limit));
    // Who forbids that has set another.
    let _ = setrlimit(Resource::Data, Rlimit { current: Some(current), ..former });
}

async fn answer(question: &Question, records: &Records, schema: Schema) -> Result<(), Failure> {
    let context = context(question.memory)?;
    let table = table(&question.records, records, schema);
    let table = table.and_then(|table| context.register_table("clocks", table));
    table.map_err(|why| failed(why, question))?;
    // A question changes nothing.
    let options =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let asked = context.sql_with_options(&question.sql, options).await;
    let frame = asked.map_err(|why| failed(why, question))?;
    let rows = frame.execute_stream().await;
    let mut rows = rows.map_err(|why| failed(why, question))?;
    let begin = |rows: &SendableRecordBatchStream| Writer::new(question.form, &rows.schema());
    // Not before there is something: a refusal comes without a heading.
    let mut begun = None;
    while let Some(batch) = rows.next().await {
        let batch = batch.map_err(|why| failed(why, question))?;
        let mut writer = begun.take().map_or_else(|| begin(&rows), Ok)?;
        writer.write(&batch)?;
        begun = Some(writer);
    }
    begun.map_or_else(|| begin(&rows), Ok)?.finish()
}

fn context(memory: usize) -> Result<SessionContext, Failure> {
    // The other half is for pages, batches and texts, which the pool does not count.
    let pool = Arc::new(FairSpillPool::new(memory / 2));
    let runtime =
        RuntimeEnvBuilder::new().with_memory_pool(pool).with_max_temp_directory_size(DISK_BYTES);
    let runtime = runtime.build_arc();
    let runtime = runtime
        .map_err(|why| Failure::new(format!("DataFusion does not begin: {why}"), "TMPDIR"))?;
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let config = SessionConfig::new().with_target_partitions(cpus);
    Ok(SessionContext::new_with_config_rt(config, runtime))
}

/// The records as a table, of which nothing is read yet.
fn table(
    root: &Path,
    records: &Records,
    schema: Schema,
) -> Result<Arc<ListingTable>, DataFusionError> {
    let by_path = records.by_path.iter().map(|name| ((*name).to_owned(), DataType::Utf8));
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
        .with_file_extension(".parquet")
        .with_table_partition_cols(by_path.collect());
    // As a path, `*` would be any.
    let root = root.canonicalize()?;
    let url = Url::from_directory_path(&root).map_err(|()| {
        DataFusionError::Configuration(format!("{} is no path of a folder", root.display()))
    })?;
    let url = ListingTableUrl::try_new(url, None)?;
    let config =
        ListingTableConfig::new(url).with_listing_options(options).with_schema(Arc::new(schema));
    Ok(Arc::new(ListingTable::try_new(config)?))
}

fn failed(why: DataFusionError, question: &Question) -> Failure {
    let remedy = match why.find_root() {
        DataFusionError::ResourcesExhausted(_) => format!(
            "a larger --memory (it was {} MB), or a question about fewer days or columns",
            question.memory / 1_000_000
        ),
        DataFusionError::ParquetError(_) | DataFusionError::ObjectStore(_) => {
            "the records without the file that is damaged; `parachron-query \"select host, date, \
             count(*) from clocks group by host, date\"` reads less of them"
                .to_owned()
        }
        _ => "the columns of table `clocks` are in docs/guide/fleet-records.md; text is quoted by \
              one quote"
            .to_owned(),
    };
    // Without the place in its own code.
    Failure::new(why.strip_backtrace(), remedy)
}
