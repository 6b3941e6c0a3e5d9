// Ground-truth OpenAI-style SSE server: one thread, epoll, min-heap of per-stream deadlines.
// Every SSE chunk carries the CLOCK_MONOTONIC ("sm") and CLOCK_REALTIME ("sr") ns taken right before its send().
// build: make      truth so far: GET /stats (ns histograms), GET /reset starts anew      flags: README.md
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
static SSL_CTX*g_tls;
#else
typedef void SSL;
#endif

typedef uint64_t u64; typedef int64_t i64;
static u64 now_clk(clockid_t c){struct timespec t;clock_gettime(c,&t);return (u64)t.tv_sec*1000000000ull+t.tv_nsec;}
#define MONO() now_clk(CLOCK_MONOTONIC)
#define REAL() now_clk(CLOCK_REALTIME)

// ---- options
static int o_port=8200,o_tpc=1,o_tpcmax=0,o_align=0,o_spin=0,o_coalesce=1,o_split=0,o_sndbuf=0,o_close=0,o_deftok=128,o_word_rep=1,o_cork=0;
static int o_phase=0,o_stall_every=0,o_err_every=0;static double o_stall_ms=0;static double o_ttft_ms=20,o_itl_ms=20; static double o_jitter=0; static const char*o_word=" the"; static const char*o_model="tiny";

// ---- log-linear histogram (ns): 1024 sub-buckets per power of two -> <=0.1% error
#define HB (56*1024)
typedef struct{u64 n,sum,min,max;u64 b[HB];}hist;
static void h_reset(hist*h){memset(h,0,sizeof*h);h->min=~0ull;}
static inline int h_idx(u64 v){if(v<1024)return v;int e=63-__builtin_clzll(v);int s=(v>>(e-10))&1023;return (e-9)*1024+s;}
static u64 h_val(int i){if(i<1024)return i;int e=i/1024+9;u64 s=i%1024;return ((1024+s)<<(e-10))+((1ull<<(e-10))>>1);}
static inline void h_add(hist*h,u64 v){h->n++;h->sum+=v;if(v<h->min)h->min=v;if(v>h->max)h->max=v;int i=h_idx(v);if(i>=HB)i=HB-1;h->b[i]++;}
static u64 h_q(hist*h,double q){if(!h->n)return 0;u64 t=(u64)(q*(h->n-1))+1,c=0;for(int i=0;i<HB;i++){c+=h->b[i];if(c>=t)return h_val(i);}return h->max;}
static hist H_late,H_ttft,H_itl,H_tpot;
static u64 c_resets,c_chunks,c_reqs,c_done,c_blocked,c_conns,c_sends,c_bytes,c_tokens,c_errors,c_stalls,c_slow,t_busy,c_busy_done; static int g_running,g_maxrun; static u64 t_first,t_last;

enum{IDLE=0,STREAM,NONSTREAM};
typedef struct conn{int fd,hi,state,chat,usage,blocked,eof,listed; u64 deadline,t_req,t_lastw; int total,left,ptok; unsigned seq; u64 rid,t_firstw; int ftok,fails;
  char*rb;SSL*ssl; int rl,rc; char*ob;int ol,oo,oc; struct conn*next,*prev;int headers_sent;}conn;
static conn*conns[1<<20];
// heap
static conn**hp;static int hn,hcap;
static void h_swap(int a,int b){conn*t=hp[a];hp[a]=hp[b];hp[b]=t;hp[a]->hi=a;hp[b]->hi=b;}
static void h_up(int i){while(i>0){int p=(i-1)/2;if(hp[p]->deadline<=hp[i]->deadline)break;h_swap(p,i);i=p;}}
static void h_dn(int i){for(;;){int l=2*i+1,m=i;if(l<hn&&hp[l]->deadline<hp[m]->deadline)m=l;if(l+1<hn&&hp[l+1]->deadline<hp[m]->deadline)m=l+1;if(m==i)break;h_swap(m,i);i=m;}}
static void hp_push(conn*c){if(hn==hcap){hcap=hcap?hcap*2:1024;hp=realloc(hp,hcap*sizeof*hp);}c->hi=hn;hp[hn++]=c;h_up(c->hi);}
static void hp_del(conn*c){int i=c->hi;if(i<0)return;hn--;if(i!=hn){hp[i]=hp[hn];hp[i]->hi=i;h_up(i);h_dn(i);}c->hi=-1;}
static int ep; static u64 rng=88172645463325252ull; static u64 g_rid;
static u64 xr(void){rng^=rng<<13;rng^=rng>>7;rng^=rng<<17;return rng;}

// ---- templates
static char T[2][4096];static int TL[2],off_id[2],off_sm[2],off_sr[2],off_seq[2],off_fin[2];
static char TXT[2048];
static void d19(char*p,u64 v){for(int i=18;i>=0;i--){p[i]='0'+v%10;v/=10;}}
static void d8(char*p,unsigned v){for(int i=7;i>=0;i--){p[i]='0'+v%10;v/=10;}}
static int build_event(char*out,int chat,int ntok,int fin,u64 rid,unsigned seq,u64 created){
  char txt[2048];int n=0;int wl=strlen(o_word);for(int i=0;i<ntok&&n+wl<1500;i++){memcpy(txt+n,o_word,wl);n+=wl;}txt[n]=0;
  char ids[2048];int q=0;for(int i=0;i<ntok&&q<1990;i++)q+=sprintf(ids+q,i?",7":"7");ids[q]=0; // token_ids: one per token of the chunk
  const char*fr=fin?"\"length\"":"null";
  if(chat)return sprintf(out,"data: {\"id\":\"chatcmpl-%08llu\",\"object\":\"chat.completion.chunk\",\"created\":%llu,\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},\"logprobs\":null,\"finish_reason\":%s,\"token_ids\":[%s]}],\"seq\":\"%08u\",\"sm\":\"0000000000000000000\",\"sr\":\"0000000000000000000\"}\n\n",(unsigned long long)rid,(unsigned long long)created,o_model,txt,fr,ids,seq);
  return sprintf(out,"data: {\"id\":\"cmpl-%08llu\",\"object\":\"text_completion\",\"created\":%llu,\"model\":\"%s\",\"choices\":[{\"index\":0,\"text\":\"%s\",\"logprobs\":null,\"finish_reason\":%s,\"stop_reason\":null,\"token_ids\":[%s]}],\"usage\":null,\"seq\":\"%08u\",\"sm\":\"0000000000000000000\",\"sr\":\"0000000000000000000\"}\n\n",(unsigned long long)rid,(unsigned long long)created,o_model,txt,fr,ids,seq);
}
// fast path: framed template (chunk size line + event + CRLF) with patch offsets, for ntok==o_tpc and not final
static void mk_templates(void){
  for(int k=0;k<2;k++){char ev[4096];int n=build_event(ev,k,o_tpc,0,0,0,time(NULL));
    int h=sprintf(T[k],"%x\r\n",n);memcpy(T[k]+h,ev,n);memcpy(T[k]+h+n,"\r\n",2);TL[k]=h+n+2;T[k][TL[k]]=0;
    off_id[k]=strstr(T[k],k?"chatcmpl-":"cmpl-")-T[k]+(k?9:5);off_seq[k]=strstr(T[k],"\"seq\":\"")-T[k]+7;off_sm[k]=strstr(T[k],"\"sm\":\"")-T[k]+6;off_sr[k]=strstr(T[k],"\"sr\":\"")-T[k]+6;}
}
static int frame(char*out,const char*b,int n){int h=sprintf(out,"%x\r\n",n);memcpy(out+h,b,n);memcpy(out+h+n,"\r\n",2);return h+n+2;}

static void ep_mod(conn*c,uint32_t ev){struct epoll_event e={.events=ev,.data.fd=c->fd};epoll_ctl(ep,EPOLL_CTL_MOD,c->fd,&e);}
// lists: act = active round-robin (ITL 0); qT / qI = deadline-ordered FIFOs (constant TTFT / constant ITL), heap only for jitter and non-stream
static conn act={.next=&act,.prev=&act},qT={.next=&qT,.prev=&qT},qI={.next=&qI,.prev=&qI};
static void l_addto(conn*h,conn*c){if(c->listed)return;c->listed=1;c->prev=h->prev;c->next=h;h->prev->next=c;h->prev=c;}
static void l_add(conn*c){l_addto(&act,c);}
static void l_del(conn*c){if(!c->listed)return;c->listed=0;c->prev->next=c->next;c->next->prev=c->prev;}
// the wire: -1 with EAGAIN where it takes or has no more now. A chunk's stamp is taken before SSL_write encrypts it.
#ifdef WITH_TLS
static ssize_t tls_result(conn*c,int r){if(r>0)return r;int e=SSL_get_error(c->ssl,r);if(e==SSL_ERROR_ZERO_RETURN)return 0;errno=e==SSL_ERROR_WANT_READ||e==SSL_ERROR_WANT_WRITE?EAGAIN:EPIPE;return -1;}
static ssize_t io_send(conn*c,const char*b,int n){if(!c->ssl)return send(c->fd,b,n,MSG_NOSIGNAL|MSG_DONTWAIT);ERR_clear_error();return tls_result(c,SSL_write(c->ssl,b,n));}
static ssize_t io_recv(conn*c,char*b,int n){if(!c->ssl)return recv(c->fd,b,n,MSG_DONTWAIT);ERR_clear_error();return tls_result(c,SSL_read(c->ssl,b,n));}
static void io_open(conn*c){if(!g_tls)return;c->ssl=SSL_new(g_tls);SSL_set_fd(c->ssl,c->fd);SSL_set_accept_state(c->ssl);}
static void io_end(conn*c){if(c->ssl)SSL_shutdown(c->ssl);}
static void io_free(conn*c){if(c->ssl)SSL_free(c->ssl);}
static int tls_setup(const char*pem){g_tls=SSL_CTX_new(TLS_server_method());SSL_CTX_set_mode(g_tls,SSL_MODE_ENABLE_PARTIAL_WRITE|SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);return SSL_CTX_use_certificate_chain_file(g_tls,pem)==1&&SSL_CTX_use_PrivateKey_file(g_tls,pem,SSL_FILETYPE_PEM)==1;}
#else
static ssize_t io_send(conn*c,const char*b,int n){return send(c->fd,b,n,MSG_NOSIGNAL|MSG_DONTWAIT);}
static ssize_t io_recv(conn*c,char*b,int n){return recv(c->fd,b,n,MSG_DONTWAIT);}
static void io_open(conn*c){(void)c;}static void io_end(conn*c){(void)c;}static void io_free(conn*c){(void)c;}
static int tls_setup(const char*pem){(void)pem;fprintf(stderr,"built without TLS: make tls\n");return 0;}
#endif
static void c_close(conn*c){hp_del(c);l_del(c);if(c->state!=IDLE)g_running--;io_free(c);conns[c->fd]=NULL;close(c->fd);free(c->rb);free(c->ob);free(c);}
static int c_flush(conn*c){while(c->oo<c->ol){ssize_t r=io_send(c,c->ob+c->oo,c->ol-c->oo);c_sends++;if(r>0){c->oo+=r;c_bytes+=r;}else if(r<0&&errno==EAGAIN){if(!c->blocked){c->blocked=1;c_blocked++;ep_mod(c,EPOLLIN|EPOLLOUT|EPOLLRDHUP);}return 0;}else return -1;}
  c->oo=c->ol=0;if(c->blocked){c->blocked=0;ep_mod(c,EPOLLIN|EPOLLRDHUP);}return 1;}
static int c_send(conn*c,const char*b,int n){ // 1 ok/buffered, -1 dead
  if(c->ol==c->oo){c->ol=c->oo=0;ssize_t r=io_send(c,b,n);c_sends++;if(r==n){c_bytes+=r;return 1;}if(r<0){if(errno!=EAGAIN)return -1;r=0;}c_bytes+=r;b+=r;n-=r;}
  if(c->ol+n>c->oc){c->oc=(c->ol+n)*2;c->ob=realloc(c->ob,c->oc);}memcpy(c->ob+c->ol,b,n);c->ol+=n;
  if(!c->blocked){c->blocked=1;c_blocked++;ep_mod(c,EPOLLIN|EPOLLOUT|EPOLLRDHUP);}return 1;}

static void process_input(conn*c);
static void finish(conn*c){c->state=IDLE;g_running--;c_done++;if(t_busy)c_busy_done++;hp_del(c);l_del(c);if(o_close){io_end(c);shutdown(c->fd,SHUT_WR);}}
static const char HDR[]="HTTP/1.1 200 OK\r\ndate: Sun, 29 Nov 2026 19:00:00 GMT\r\nserver: truth\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
// append one event (and the tail if it is the last) to buf; returns length
static int gen(conn*c,char*buf,u64 m,u64 r){int n=0;int k=c->chat;
  if(!c->headers_sent){memcpy(buf,HDR,sizeof HDR-1);n=sizeof HDR-1;c->headers_sent=1;
    if(k){char ev[1024];int l=sprintf(ev,"data: {\"id\":\"chatcmpl-%08llu\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n",(unsigned long long)c->rid,o_model);n+=frame(buf+n,ev,l);}}
  int t=o_tpcmax?1+xr()%o_tpcmax:o_tpc;if(t>c->left)t=c->left;int fin=t>=c->left;
  if(!fin&&t==o_tpc){char*p=buf+n;memcpy(p,T[k],TL[k]);d8(p+off_id[k],c->rid);d8(p+off_seq[k],c->seq);d19(p+off_sm[k],m);d19(p+off_sr[k],r);n+=TL[k];}
  else{char ev[4096];int l=build_event(ev,k,t,fin,c->rid,c->seq,time(NULL));d19(strstr(ev,"\"sm\":\"")+6,m);d19(strstr(ev,"\"sr\":\"")+6,r);n+=frame(buf+n,ev,l);}
  c->left-=t;c->seq++;c_chunks++;c_tokens+=t;
  if(c->seq==1){h_add(&H_ttft,m-c->t_req);c->t_firstw=m;c->ftok=t;}else h_add(&H_itl,m-c->t_lastw);c->t_lastw=m;if(!t_first)t_first=m;t_last=m;
  if(fin){if(c->total>c->ftok)h_add(&H_tpot,(m-c->t_firstw)/(c->total-c->ftok));char ev[1024];int l;if(c->usage){l=sprintf(ev,"data: {\"id\":\"%s-%08llu\",\"object\":\"%s\",\"created\":0,\"model\":\"%s\",\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d,\"completion_tokens\":%d}}\n\n",k?"chatcmpl":"cmpl",(unsigned long long)c->rid,k?"chat.completion.chunk":"text_completion",o_model,c->ptok,c->ptok+c->total,c->total);n+=frame(buf+n,ev,l);}
    n+=frame(buf+n,"data: [DONE]\n\n",14);memcpy(buf+n,"0\r\n\r\n",5);n+=5;}
  return n;}
// what vLLM sends when generation fails after the head: an error object, then [DONE]
static int gen_error(conn*c,char*buf){static const char E[]="data: {\"error\":{\"message\":\"injected failure\",\"type\":\"InternalServerError\",\"param\":null,\"code\":500}}\n\n";
  int n=frame(buf,E,sizeof E-1);n+=frame(buf+n,"data: [DONE]\n\n",14);memcpy(buf+n,"0\r\n\r\n",5);c->left=0;c_errors++;return n+5;}
static int emit(conn*c,int count){ // send `count` events in one send
  static char buf[1<<17];int n=0;u64 m=MONO(),r=REAL();
  for(int i=0;i<count&&c->left>0;i++)n+=c->fails&&c->left<=c->total/2&&c->headers_sent?gen_error(c,buf+n):gen(c,buf+n,m,r);
  int done=c->left<=0;int rc;
  if(o_split&&n>40){int h=n/2;rc=c_send(c,buf,h);if(rc>0){usleep(o_split);rc=c_send(c,buf+h,n-h);}}
  else rc=c_send(c,buf,n);
  if(MONO()-m>150000)c_slow+=count; // interrupted between stamp and send, or in it: no client can be that exact
  if(rc<0){c_close(c);return -1;}
  if(done){finish(c);if(c->rl)process_input(c);return 1;}
  return 0;}
static void emit_nonstream(conn*c){static char b[1<<20],o[(1<<20)+512];char*p=b;
  p+=sprintf(p,c->chat?"{\"id\":\"chatcmpl-%08llu\",\"object\":\"chat.completion\",\"created\":0,\"model\":\"%s\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"":"{\"id\":\"cmpl-%08llu\",\"object\":\"text_completion\",\"created\":0,\"model\":\"%s\",\"choices\":[{\"index\":0,\"text\":\"",(unsigned long long)c->rid,o_model);
  for(int i=0;i<c->total&&p-b<900000;i++)p=stpcpy(p,o_word);
  p+=sprintf(p,c->chat?"\"},\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d,\"completion_tokens\":%d},\"sm\":\"%019llu\",\"sr\":\"%019llu\"}":"\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d,\"completion_tokens\":%d},\"sm\":\"%019llu\",\"sr\":\"%019llu\"}",c->ptok,c->ptok+c->total,c->total,(unsigned long long)MONO(),(unsigned long long)REAL());
  int n=sprintf(o,"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n",(int)(p-b));memcpy(o+n,b,p-b);
  if(c_send(c,o,n+(p-b))<0){c_close(c);return;}c_tokens+=c->total;finish(c);}
static void reply(conn*c,int code,const char*ct,const char*body,int n){char*o=malloc(n+256);int h=sprintf(o,"HTTP/1.1 %d %s\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n",code,code==200?"OK":"Not Found",ct,n);memcpy(o+h,body,n);c_send(c,o,h+n);free(o);}
static void reset(void){h_reset(&H_late);h_reset(&H_ttft);h_reset(&H_itl);h_reset(&H_tpot);c_errors=c_stalls=c_slow=t_busy=c_busy_done=0;c_resets=c_chunks=c_reqs=c_done=c_blocked=c_sends=c_bytes=c_tokens=0;t_first=t_last=0;g_maxrun=g_running;c_conns=0;}
static int hj(char*o,const char*nm,hist*h){return sprintf(o,"\"%s\":{\"n\":%llu,\"mean_us\":%.1f,\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f}",nm,(unsigned long long)h->n,h->n?h->sum/1e3/h->n:0,h_q(h,.5)/1e3,h_q(h,.9)/1e3,h_q(h,.99)/1e3,h->max/1e3);}
static int stats(char*o){struct rusage ru;getrusage(RUSAGE_SELF,&ru);char*p=o;
  p+=sprintf(p,"{\"resets\":%llu,\"chunks\":%llu,\"tokens\":%llu,\"reqs\":%llu,\"done\":%llu,\"blocked\":%llu,\"conns\":%llu,\"sends\":%llu,\"bytes\":%llu,\"running\":%d,\"max_running\":%d,\"span_s\":%.6f,\"errors\":%llu,\"stalls\":%llu,\"slow\":%llu,\"busy_done\":%llu,\"busy_s\":%.6f,\"cpu_s\":%.3f,",(unsigned long long)c_resets,(unsigned long long)c_chunks,(unsigned long long)c_tokens,(unsigned long long)c_reqs,(unsigned long long)c_done,(unsigned long long)c_blocked,(unsigned long long)c_conns,(unsigned long long)c_sends,(unsigned long long)c_bytes,g_running,g_maxrun,(t_last-t_first)/1e9,(unsigned long long)c_errors,(unsigned long long)c_stalls,(unsigned long long)c_slow,(unsigned long long)c_busy_done,t_busy&&t_last>t_busy?(t_last-t_busy)/1e9:0,ru.ru_utime.tv_sec+ru.ru_stime.tv_sec+(ru.ru_utime.tv_usec+ru.ru_stime.tv_usec)/1e6);
  p+=hj(p,"late",&H_late);*p++=',';p+=hj(p,"ttft",&H_ttft);*p++=',';p+=hj(p,"itl",&H_itl);*p++=',';p+=hj(p,"tpot",&H_tpot);*p++='}';*p++='\n';return p-o;}
static long num_after(const char*b,const char*e,const char*key){const char*p=memmem(b,e-b,key,strlen(key));if(!p)return -1;p+=strlen(key);while(p<e&&(*p==' '||*p==':'))p++;return strtol(p,NULL,10);}
static int true_after(const char*b,const char*e,const char*key){const char*p=memmem(b,e-b,key,strlen(key));if(!p)return 0;p+=strlen(key);while(p<e&&(*p==' '||*p==':'))p++;return *p=='t';}
static void process_input(conn*c){
  while(c->state==IDLE&&c->rl>0){c->rb[c->rl]=0;char*he=memmem(c->rb,c->rl,"\r\n\r\n",4);if(!he)return;int hl=he-c->rb+4;
    char*cl=strcasestr(c->rb,"content-length:");long bl=cl&&cl<he?strtol(cl+15,NULL,10):0;
    char*te=strcasestr(c->rb,"transfer-encoding: chunked");if(te&&te<he){char*z=memmem(c->rb+hl,c->rl-hl,"\r\n0\r\n\r\n",7);if(!z)return;bl=z+7-(c->rb+hl);}
    char*ex=strcasestr(c->rb,"expect: 100-continue");if(ex&&ex<he&&c->rl==hl){memset(ex,'X',6);c_send(c,"HTTP/1.1 100 Continue\r\n\r\n",25);}
    if(c->rl<hl+bl)return;
    const char*b=c->rb+hl,*e=b+bl;
    char path[256]="";sscanf(c->rb,"%*15s %255s",path);char*q=strchr(path,'?');if(q)*q=0;
    if(!strcmp(path,"/v1/completions")||!strcmp(path,"/v1/chat/completions")){c->chat=path[4]=='c'&&path[5]=='h';c_reqs++;
      long mt=num_after(b,e,"\"max_tokens\"");if(mt<0)mt=num_after(b,e,"\"max_completion_tokens\"");if(mt<=0)mt=o_deftok;
      c->total=c->left=mt;c->ptok=bl/5;c->usage=true_after(b,e,"\"include_usage\"");c->seq=0;c->rid=g_rid++;c->fails=o_err_every&&c->rid%o_err_every==(u64)o_err_every-1;c->headers_sent=0;c->t_req=MONO();
      g_running++;if(g_running>g_maxrun)g_maxrun=g_running;if(g_running>1&&!t_busy)t_busy=c->t_req;
      int st=true_after(b,e,"\"stream\"");c->state=st?STREAM:NONSTREAM;
      u64 itl=o_itl_ms*1e6;c->deadline=c->t_req+(u64)(o_ttft_ms*1e6);if(!st)c->deadline+=itl*((mt+o_tpc-1)/o_tpc-1);
      if(o_align&&itl)c->deadline=(c->deadline+itl-1)/itl*itl;
      if(o_phase&&itl)c->deadline+=xr()%itl;
      if(o_jitter>0||!st||o_phase)hp_push(c);else l_addto(&qT,c);
    }else if(!strcmp(path,"/v1/models")){char o[512];int n=sprintf(o,"{\"object\":\"list\",\"data\":[{\"id\":\"%s\",\"object\":\"model\",\"created\":0,\"owned_by\":\"vllm\",\"root\":\"%s\",\"parent\":null,\"max_model_len\":131072}]}",o_model,o_model);reply(c,200,"application/json",o,n);
    }else if(!strcmp(path,"/health")||!strcmp(path,"/ping")){reply(c,200,"application/json","",0);
    }else if(!strcmp(path,"/stats")){char o[4096];int n=stats(o);reply(c,200,"application/json",o,n);
    }else if(!strcmp(path,"/reset")){reset();reply(c,200,"application/json","{}",2);
    }else if(!strcmp(path,"/metrics")){char o[2048];int n=sprintf(o,"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"%s\"} %d\n# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{model_name=\"%s\"} %llu\n# TYPE vllm:request_success_total counter\nvllm:request_success_total{finished_reason=\"length\",model_name=\"%s\"} %llu\n",o_model,g_running,o_model,(unsigned long long)c_tokens,o_model,(unsigned long long)c_done);reply(c,200,"text/plain; version=0.0.4; charset=utf-8",o,n);
    }else reply(c,404,"application/json","{\"error\":\"not found\"}",21);
    int used=hl+bl;memmove(c->rb,c->rb+used,c->rl-used);c->rl-=used;}
}
// a stall comes after every o_stall_every-th chunk of a stream, or once, in its middle
static int stalls_now(conn*c){if(o_stall_ms<=0)return 0;if(o_stall_every)return c->seq%o_stall_every==0;unsigned all=(c->total+o_tpc-1)/o_tpc;return c->seq==(all+1)/2;}
static conn*peek(void){conn*c=hn?hp[0]:NULL;if(qT.next!=&qT&&(!c||qT.next->deadline<c->deadline))c=qT.next;if(qI.next!=&qI&&(!c||qI.next->deadline<c->deadline))c=qI.next;return c;}
static volatile int stop;static void on_sig(int s){(void)s;stop=1;}
int main(int argc,char**argv){
  static struct option L[]={{"port",1,0,'p'},{"ttft",1,0,'t'},{"itl",1,0,'i'},{"tpc",1,0,'k'},{"tpc-max",1,0,'K'},{"align",0,0,'a'},{"spin",0,0,'s'},{"coalesce",1,0,'c'},{"split",1,0,'x'},{"sndbuf",1,0,'b'},{"close",0,0,'C'},{"default-tokens",1,0,'d'},{"word",1,0,'w'},{"model",1,0,'m'},{"jitter",1,0,'j'},{"phase",0,0,'P'},{"stall-ms",1,0,'S'},{"stall-every",1,0,'V'},{"error-every",1,0,'E'},{"tls",1,0,'T'},{0}};
  int o;while((o=getopt_long(argc,argv,"",L,0))!=-1)switch(o){case'p':o_port=atoi(optarg);break;case't':o_ttft_ms=atof(optarg);break;case'i':o_itl_ms=atof(optarg);break;case'k':o_tpc=atoi(optarg);break;case'K':o_tpcmax=atoi(optarg);break;case'a':o_align=1;break;case's':o_spin=1;break;case'c':o_coalesce=atoi(optarg);break;case'x':o_split=atoi(optarg);break;case'b':o_sndbuf=atoi(optarg);break;case'C':o_close=1;break;case'd':o_deftok=atoi(optarg);break;case'w':o_word=optarg;break;case'm':o_model=optarg;break;case'j':o_jitter=atof(optarg);break;case'P':o_phase=1;break;case'S':o_stall_ms=atof(optarg);break;case'V':o_stall_every=atoi(optarg);break;case'E':o_err_every=atoi(optarg);break;case'T':if(!tls_setup(optarg))return 2;break;default:return 2;}
  signal(SIGPIPE,SIG_IGN);signal(SIGTERM,on_sig);signal(SIGINT,on_sig);prctl(PR_SET_TIMERSLACK,1);struct rlimit rl={1<<17,1<<17};setrlimit(RLIMIT_NOFILE,&rl);
  mk_templates();reset();
  int ls=socket(AF_INET,SOCK_STREAM|SOCK_NONBLOCK,0),one=1;setsockopt(ls,SOL_SOCKET,SO_REUSEADDR,&one,sizeof one);
  struct sockaddr_in a={.sin_family=AF_INET,.sin_port=htons(o_port),.sin_addr.s_addr=htonl(INADDR_LOOPBACK)};
  if(bind(ls,(void*)&a,sizeof a)||listen(ls,65535)){perror("bind");return 1;}
  socklen_t al=sizeof a;getsockname(ls,(void*)&a,&al);printf("port %d\n",ntohs(a.sin_port));fflush(stdout); // --port 0: a free one
  ep=epoll_create1(0);struct epoll_event e={.events=EPOLLIN,.data.fd=ls};epoll_ctl(ep,EPOLL_CTL_ADD,ls,&e);
  struct epoll_event ev[512];u64 itl=o_itl_ms*1e6;
  while(!stop){
    u64 m=MONO();int done=0;
    // due timers (bounded batch so that new requests are read promptly)
    while(done<256){conn*c=peek();if(!c||c->deadline>m)break;done++;
      if(c->state==NONSTREAM){hp_del(c);emit_nonstream(c);continue;}
      if(!itl){hp_del(c);l_del(c);l_add(c);continue;}
      u64 w=MONO();h_add(&H_late,w-c->deadline);
      int r=emit(c,o_coalesce);if(r)continue;
      u64 d=itl*o_coalesce;if(o_jitter>0)d=d*(1-o_jitter)+(u64)(d*2*o_jitter*((xr()>>11)*(1.0/9007199254740992.0)));
      int stall=stalls_now(c);if(stall){d+=o_stall_ms*1e6;c_stalls++;}
      c->deadline+=d; // after overload: skip ahead instead of bursting to catch up, and count it
      if(c->deadline<w){c_resets++;c->deadline=o_align?w/itl*itl+itl:w+d;}
      if(stall){hp_del(c);l_del(c);hp_push(c);} // qI is in order of deadlines: a stalled stream waits in the heap
      else if(c->hi>=0&&!o_phase)h_dn(c->hi);else{hp_del(c);l_del(c);if(qI.prev!=&qI&&c->deadline<qI.prev->deadline)c->deadline=qI.prev->deadline;l_addto(&qI,c);}
      if((done&63)==0)m=MONO();}
    // ITL 0: one round over active, unblocked streams
    if(!itl){int n=0;for(conn*c=act.next,*nx;c!=&act&&n<512;c=nx){nx=c->next;n++;int r=emit(c,o_coalesce);if(r==0){l_del(c);if(!c->blocked)l_add(c);}}}
    struct timespec ts={0,0},*tp=&ts;conn*nx_=peek();u64 mm=MONO();int havework=(act.next!=&act)||(nx_&&nx_->deadline<=mm);
    if(!havework&&!o_spin){if(nx_){i64 w=nx_->deadline-mm;if(w<0)w=0;ts.tv_sec=w/1000000000;ts.tv_nsec=w%1000000000;}else{ts.tv_sec=1;}}
    int n=epoll_pwait2(ep,ev,512,tp,NULL);
    for(int i=0;i<n;i++){int fd=ev[i].data.fd;
      if(fd==ls){for(int k=0;k<64;k++){int s=accept4(ls,0,0,SOCK_NONBLOCK);if(s<0)break;setsockopt(s,IPPROTO_TCP,TCP_NODELAY,&one,sizeof one);if(o_sndbuf)setsockopt(s,SOL_SOCKET,SO_SNDBUF,&o_sndbuf,sizeof o_sndbuf);conn*c=calloc(1,sizeof*c);c->fd=s;c->hi=-1;c->rc=4096;c->rb=malloc(c->rc+1);conns[s]=c;c_conns++;io_open(c);struct epoll_event e2={.events=EPOLLIN|EPOLLRDHUP,.data.fd=s};epoll_ctl(ep,EPOLL_CTL_ADD,s,&e2);}continue;}
      conn*c=conns[fd];if(!c)continue;
      if(ev[i].events&EPOLLOUT){int r=c_flush(c);if(r<0){c_close(c);continue;}if(r>0&&!itl&&c->state==STREAM&&c->hi<0&&!c->listed)l_add(c);}
      if(ev[i].events&(EPOLLIN|EPOLLHUP|EPOLLERR|EPOLLRDHUP)){int dead=0;for(;;){if(c->rl+8192>c->rc){c->rc=c->rc*2+8192;c->rb=realloc(c->rb,c->rc+1);}
          ssize_t r=io_recv(c,c->rb+c->rl,c->rc-c->rl);if(r>0){c->rl+=r;if(!c->ssl&&r<c->rc-c->rl)break;continue;}/* TLS: records may wait in it */if(r==0)dead=1;else if(errno!=EAGAIN)dead=1;break;}
        if(dead){c_close(c);continue;}process_input(c);}
    }
  }
  char o2[4096];int n=stats(o2);fwrite(o2,1,n,stderr);return 0;}
