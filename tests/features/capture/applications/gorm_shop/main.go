// A blog written with GORM: associations, preloads, soft deletes, upserts, transactions, batches.
// gorm_shop prepare|load CONNINFO CLIENTS; the load ends with the standard input.
package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type Author struct {
	gorm.Model
	Email string `gorm:"uniqueIndex"`
	Name  string
	Posts []Post
}
type Post struct {
	gorm.Model
	AuthorID uint `gorm:"index"`
	Author   Author
	Title    string
	Body     string
	State    string `gorm:"index;default:draft;check:state IN ('draft','public')"`
	Views    int
	Tags     []Tag `gorm:"many2many:post_tags"`
	Comments []Comment
}
type Tag struct {
	ID   uint
	Name string `gorm:"uniqueIndex"`
}
type Comment struct {
	ID      uint
	PostID  uint `gorm:"index"`
	Words   string
	Created time.Time `gorm:"autoCreateTime"`
}

var words = []string{"red", "blue", "green", "small", "large", "steel", "wood", "paper", "lamp", "chair", "table", "desk"}

func skewed(n int) int { r := rand.Float64(); return 1 + int(float64(n)*r*r) }
func word() string     { return words[skewed(len(words))-1] }

func check(err error) {
	if err != nil && !errors.Is(err, gorm.ErrRecordNotFound) {
		panic(err)
	}
}

func prepare(db *gorm.DB) {
	check(db.AutoMigrate(&Author{}, &Tag{}, &Post{}, &Comment{}))
	var authors []Author
	for n := 0; n < 200; n++ {
		authors = append(authors, Author{Email: fmt.Sprintf("a%d@blog.example", n), Name: word()})
	}
	var tags []Tag
	for _, name := range words {
		tags = append(tags, Tag{Name: name})
	}
	check(db.CreateInBatches(&authors, 100).Error)
	check(db.Create(&tags).Error)
	var posts []Post
	for n := 0; n < 1500; n++ {
		posts = append(posts, Post{AuthorID: authors[skewed(200)-1].ID, Title: word() + " " + word(), Body: fmt.Sprint(word(), " ", word(), n), State: "public", Tags: []Tag{tags[skewed(12)-1]}})
	}
	check(db.CreateInBatches(&posts, 200).Error)
}

func request(db *gorm.DB) {
	var post Post
	var posts []Post
	switch choice := rand.Float64(); {
	case choice < 0.25:
		check(db.Where("state = ?", "public").Order("id DESC").Limit(20).Offset(20 * (skewed(5) - 1)).Preload("Author").Find(&posts).Error)
	case choice < 0.5:
		check(db.Preload("Tags").Preload("Comments").First(&post, skewed(1500)).Error)
		check(db.Model(&Post{}).Where("id = ?", post.ID).Update("views", gorm.Expr("views + ?", 1)).Error)
	case choice < 0.65:
		check(db.Create(&Comment{PostID: uint(skewed(1500)), Words: word() + " " + word()}).Error)
	case choice < 0.75:
		check(db.Transaction(func(tx *gorm.DB) error {
			tags := []Tag{{Name: word()}, {Name: fmt.Sprint("new", skewed(300))}}
			if tags[0].Name > tags[1].Name {
				tags[0], tags[1] = tags[1], tags[0]
			}
			if err := tx.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "name"}}, DoUpdates: clause.AssignmentColumns([]string{"name"})}).Create(&tags).Error; err != nil {
				return err
			}
			return tx.Create(&Post{AuthorID: uint(skewed(200)), Title: word() + " " + word(), Body: word(), Tags: tags}).Error
		}))
	case choice < 0.85:
		check(db.Joins("Author").Where("posts.title ILIKE ?", "%"+word()+"%").Limit(10).Find(&posts).Error)
	case choice < 0.92:
		var rows []struct {
			State string
			Total int
		}
		check(db.Model(&Post{}).Select("state, count(*) AS total").Where("author_id = ?", skewed(200)).Group("state").Scan(&rows).Error)
	case choice < 0.97:
		check(db.Model(&Post{}).Where("author_id = ? AND state = ?", skewed(200), "draft").Updates(map[string]any{"state": "public"}).Error)
	default:
		check(db.Delete(&Post{}, skewed(1500)).Error)
	}
}

func main() {
	db, err := gorm.Open(postgres.Open(os.Args[2]), &gorm.Config{Logger: logger.Default.LogMode(logger.Silent)})
	check(err)
	if os.Args[1] == "prepare" {
		prepare(db)
		return
	}
	clients, _ := strconv.Atoi(os.Args[3])
	var over atomic.Bool
	var group sync.WaitGroup
	for n := 0; n < clients; n++ {
		group.Go(func() {
			for !over.Load() {
				request(db)
				time.Sleep(time.Duration(rand.ExpFloat64() * 3e6))
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	over.Store(true)
	group.Wait()
}
